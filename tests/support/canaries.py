"""Models with planted paths: PyTorch's place becomes a home, another one in each record, as long as that."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PLACES = (b"/opt/py/lib/python3.11/site-packages/torch", b"/opt/torch/torch")
"""Where PyTorch lay when fixtures were made."""


def canary(number: int, length: int) -> bytes:
    """A path in the home of a user of that number, so long."""
    head = b"/home/u%03d/" % number
    return head + b"x" * (length - len(head))


def planted(data: bytes) -> tuple[bytes, dict[str, str]]:
    """A zip in which each record's paths are those of a user of its own; and the user of each record.

    Records keep their lengths, and zips in zips are left as they are.
    """
    users: dict[str, str] = {}

    def change(name: str, old: bytes) -> bytes:
        new = old
        for place in PLACES:
            new = new.replace(place, canary(len(users), len(place)))
        if new != old:
            users[name] = f"u{len(users):03d}"
        return new

    return rewritten(data, change), users


def rewritten(data: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    """A zip with other bytes in its records; ``change`` has a record's name without root, and its bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        folders = {name.partition("/")[0] for name in source.namelist()}
        root = f"{folders.pop()}/" if len(folders) == 1 else ""
        for info in source.infolist():
            new = change(info.filename.removeprefix(root), source.read(info))
            target.writestr(zipfile.ZipInfo(info.filename), new, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def with_records(source: Path, added: Mapping[str, bytes]) -> bytes:
    """An archive with further records."""
    out = io.BytesIO(source.read_bytes())
    with zipfile.ZipFile(out, "a") as target:
        root = target.namelist()[0].partition("/")[0]
        for name, data in added.items():
            target.writestr(zipfile.ZipInfo(f"{root}/{name}"), data)
    return out.getvalue()
