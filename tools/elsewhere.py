"""What commands fetch of an archive of 4 GB that a server of this machine has, in requests and bytes.

PyTorch makes the models; two tensors of 2 GB, which are holes on disk, stand before and after their records.

python -m tools.elsewhere
"""

from __future__ import annotations

import mmap
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import archive
from archive.describe.inspect import inspect
from tests.support.range_server import served
from tests.support.zips import with_zeros
from tools.models import built

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.range_server import Served

MODELS = ("encoder48.ptl", "resnet", "resnet-traced", "fx-8k")
SIZE = 4 << 30


def look_up(url: str) -> None:
    """Symbolicate the first handle; of an archive without handles, the first source range."""
    with archive.open(url) as opened:
        handles = list(opened.handles)
        if handles:
            opened.symbolicate(handles[0])
        else:
            opened.ranges(opened.range_records[0])[0]


def inspect_it(url: str) -> None:
    """List the contents."""
    with archive.open(url) as opened:
        inspect(opened)


def measure_sizes(url: str) -> None:
    """Label all bytes."""
    archive.sizes(url)


def measured(server: Served, work: Callable[[str], None]) -> str:
    """Requests, bytes and seconds of some work."""
    server.requests.clear()
    server.sent, start = 0, time.perf_counter()
    work(f"{server.url}/model")
    return f"{len(server.requests):8} {server.sent:9,} {1e3 * (time.perf_counter() - start):6.0f} ms"


def main() -> None:
    """Print a line for each model and command."""
    print(f"{'model':14} {'bytes':>13} {'':14} requests   fetched")
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            small = Path(folder, "small")
            small.write_bytes(built(name))
            path = with_zeros(small, Path(folder, "model"), SIZE)
            with (
                path.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
                memoryview(data) as view,
                served({"/model": view}) as server,
            ):
                look_up(f"{server.url}/model")  # the first connection
                for work in (look_up, inspect_it, measure_sizes):
                    facts = f"{name:14} {len(view):13,} {work.__name__:14}"
                    print(f"{facts} {measured(server, work)}")


if __name__ == "__main__":
    main()
