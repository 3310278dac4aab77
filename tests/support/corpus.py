"""The fixtures, and their debug records as ``zipfile`` reads them."""

from __future__ import annotations

import csv
import zipfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from archive.reader.recognition import FileKind

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


# --- A small file of each kind that a model may come in, and the sentence that names it: ``kinds.tsv``


KINDS = FIXTURES / "kinds"
with Path(__file__).with_name("kinds.tsv").open(encoding="utf-8", newline="") as _table:
    NAMED = {
        row["file"]: (FileKind(row["kind"]), row["sentence"])
        for row in csv.DictReader(_table, delimiter="\t", quoting=csv.QUOTE_NONE)
    }
OTHERS = [name for name, (kind, _) in NAMED.items() if kind is not FileKind.PACKAGE]
"""Those that are no archives."""
ZIPS = [
    *("state_dict.pt", "checkpoint.pt", "module.pt", "tensor.pt", "object.pt"),
    *("exported.pt2", "compiled.pt2", "etrecord.bin", "repository.zip", "loose.zip"),
    "package_python.pt",
]
