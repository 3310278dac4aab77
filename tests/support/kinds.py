"""A small file of each kind that a model may come in, and the sentence that names it (``kinds.tsv``)."""

from __future__ import annotations

import csv
from pathlib import Path

from archive.reader.recognition import FileKind
from tests.support.corpus import FIXTURES

KINDS = FIXTURES / "kinds"
with Path(__file__).with_suffix(".tsv").open(encoding="utf-8", newline="") as _table:
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
SHOWN = "; `inspect` and `sizes` show what is in it"
