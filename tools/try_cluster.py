"""Split many archives on a Dask cluster of two worker processes, of which one is killed in the middle.

    python -m tools.try_cluster [ARCHIVES]

The archives (2,000 by default) differ from one another by a record. Of each the tool checks that it is done
once, that the manifest lists it once, and that a join gives the original to the byte. It prints times, and
ends with status 1 where anything is wrong.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import dask
from distributed import Client, LocalCluster

import archive
from tests.support.many_archives import MANIFEST, make_archives, manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from archive.batches.working import Made

WORKERS = 2
PATIENT = {"distributed.comm.timeouts.tcp": "10 minutes", "distributed.comm.timeouts.connect": "10 minutes"}
"""On a machine that is busy with other things, too, connections are not given up after half a minute."""


def main(count: int) -> int:
    """Make the archives, split them, and print what came of it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        archives = make_archives(folder / "models", count)
        print(f"archives: {count:,}, {sum(map(len, archives.values())):,} bytes")
        found = clustered(folder, count)
        timed("again, on this machine", lambda: split(folder, "out", "dbg", jobs=WORKERS))
        back = timed(
            "joined, on this machine",
            lambda: archive.batch("join", folder / "out", folder / "back", folder / "dbg", jobs=WORKERS),
        )
        lines = manifest(folder / "dbg" / MANIFEST)
        same = sum((folder / "back" / name).read_bytes() == data for name, data in archives.items())
        print("outcomes on the cluster:", dict(Counter(map(str, (one.kind for one in found)))))
        print(f"lines of the manifest: {len(lines):,}")
        print(f"joined: {len(back):,}, the original to the byte: {same:,}")
        well = {one.kind for one in found} == {archive.OutcomeKind.DONE}
        well &= sorted(line["input"] for line in lines) == sorted(archives)
        well &= same == kept(folder) == count
        print("well" if well else "WRONG")
        return 0 if well else 1


def kept(folder: Path) -> int:
    """How many archives were made, drafts and all else counted."""
    return sum(path.is_file() and path.name != MANIFEST for path in (folder / "out").rglob("*"))


def clustered(folder: Path, count: int) -> list[Made]:
    """Split the archives on a cluster that loses a worker in the middle."""
    settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        dask.config.set(PATIENT),
        LocalCluster(
            n_workers=WORKERS, host="127.0.0.1", silence_logs=logging.CRITICAL, **settings
        ) as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        killer = Thread(target=kill_one, args=(cluster, folder / "dbg" / MANIFEST, count // 2), daemon=True)
        killer.start()
        return timed("on the cluster", lambda: split(folder, "out", "dbg", executor=client.get_executor()))


def kill_one(cluster: LocalCluster, path: Path, least: int) -> None:
    """Kill a worker process once the manifest lists some archives."""
    while not path.exists() or path.read_bytes().count(b"\n") < least:
        time.sleep(0.05)
    pid = next(iter(cluster.workers.values())).pid
    os.kill(pid, signal.SIGKILL)
    print(f"killed: worker process {pid}, once {least:,} archives were listed")


def split(folder: Path, out: str, companions: str, **settings: Any) -> list[Made]:  # noqa: ANN401 (of batch)
    """Split the archives."""
    return archive.batch("split", folder / "models", folder / out, folder / companions, **settings)


def timed(what: str, run: Callable[[], list[Made]]) -> list[Made]:
    """Run something, and print how long it takes an archive."""
    before, spent = time.perf_counter(), time.process_time()
    found = run()
    seconds, own = time.perf_counter() - before, time.process_time() - spent
    print(
        f"{what}: {seconds:.1f} s, {1e3 * seconds / len(found):.1f} ms an archive, of which this process "
        f"computes {1e3 * own / len(found):.2f} ms"
    )
    return found


if __name__ == "__main__":
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000))
