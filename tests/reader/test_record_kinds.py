"""A record has one kind: for the archive id, for ``split``, and for all that compares and counts records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.compare.sameness import Level, level_of
from archive.container.serialization_id import RECORD_NAME
from archive.formats.archive_id import counted_names
from archive.formats.compiled.spare import is_object
from archive.formats.record_kinds import COMPILED as MODELS
from archive.formats.record_kinds import DEBUG_RECORDS, SHARED_OBJECTS, RecordKind
from archive.reader.recognition.kinds import PACKAGE_KINDS, READ_KINDS, FileKind, kind_in
from tests.support.corpus import ARCHIVES, KINDS, NAMED
from tests.support.exported import COMPILED, PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = ("", "code/", "models/", "data/", "data/aotinductor/model/", "data/sample_inputs/", "extra/")
ODD = [
    *(folder + name for folder in (*FOLDERS, "extra_files/") for name in ("x.debug_pkl", "x_config.json")),
    *(record.name for record in DEBUG_RECORDS if record.name is not None),
    "debug/x.pkl",
]
FILES = [
    *ARCHIVES,
    *PROGRAMS,
    *sorted(COMPILED.glob("*.pt2")),
    *(KINDS / name for name, (kind, _) in NAMED.items() if kind in READ_KINDS),
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_has_no_part_in_the_archive_id_is_debug_info_and_nothing_else_is(path: Path) -> None:
    with archive.open(path) as opened:
        kind, records = opened.recognised.kind, dict(opened.container.records)
        if kind not in PACKAGE_KINDS:  # whose odd names are refused
            records |= dict.fromkeys(set(ODD) - records.keys(), next(iter(records.values())))
        left_out = records.keys() - counted_names(records) - {RECORD_NAME}
        assert left_out == {name for name in records if kind_in(kind, name).is_debug} | {
            *opened.spare.records
        }
        assert {level_of(opened, name) for name in left_out} <= {Level.DEBUG}


@pytest.mark.parametrize("ending", [*SHARED_OBJECTS, ".cpp", ".json"])
def test_a_shared_object_is_one_for_split_and_inspect(ending: str) -> None:
    name = f"{MODELS}model/x{ending}"
    assert is_object(name) is (kind_in(FileKind.AOTI, name) is RecordKind.SHARED_OBJECT)
