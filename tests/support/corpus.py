"""The fixtures, and their debug records as ``zipfile`` reads them."""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RELEASES = FIXTURES / "releases"
ORACLES = FIXTURES / "oracles"
REFUSED = FIXTURES / "refused" / "naming.ptl"
"""PyTorch 2.13 wrote it, and refuses it."""
ARCHIVES = sorted(
    path for folder in (ORACLES, RELEASES) for path in folder.rglob("*.pt*") if path.suffix in (".pt", ".ptl")
)
"""Those that PyTorch itself wrote."""

CALLSTACKS = "callstack_debug_map.pkl"
HANDLES = "mobile_debug_handles.pkl"
PATHS = "mobile_debug.pkl"
DELEGATED = "delegated_backends.debug_pkl"


class Raw(NamedTuple):
    """A record's name without root, and its bytes."""

    name: str
    data: bytes

    @property
    def holds_ranges(self) -> bool:
        return self.name.endswith(".debug_pkl") or self.is_legacy

    @property
    def is_legacy(self) -> bool:
        """Whether it lies where only PyTorch 1.2 put source ranges."""
        return self.name.startswith("debug/")

    @property
    def is_pickle(self) -> bool:
        return self.name.endswith("pkl")


@cache
def raw_records(path: Path) -> tuple[Raw, ...]:
    """All records of an archive, in the file's order."""
    with zipfile.ZipFile(path) as archive:
        return tuple(Raw(name.partition("/")[2], archive.read(name)) for name in archive.namelist())


def oracle(name: str) -> bytes:
    """A text that PyTorch printed when the fixtures were made, or an archive beside it."""
    return (ORACLES / name).read_bytes()


def raw(path: Path, name: str) -> bytes:
    """One record."""
    (data,) = (record.data for record in raw_records(path) if record.name == name)
    return data
