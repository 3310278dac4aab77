"""Records' names: each tells its kind, and which code its source ranges belong to; names of releases."""

from __future__ import annotations

import pytest

from archive import ArchiveError
from archive.formats.record_kinds import RecordKind, code_of, holds_ranges, is_code, kind_of, range_records_of
from archive.formats.releases import LATEST, RELEASE_NUMBERS, number_of, release, shown, spanned

KINDS = {
    "data.pkl": RecordKind.MODULES,
    "model.json": RecordKind.MODULES,
    "attributes.pkl": RecordKind.MODULES,
    ".data/ts_code/0/data.pkl": RecordKind.MODULES,
    "constants.pkl": RecordKind.CONSTANTS,
    ".data/ts_code/12/constants.pkl": RecordKind.CONSTANTS,
    "bytecode.pkl": RecordKind.BYTECODE,
    "callstack_debug_map.pkl": RecordKind.CALLSTACKS,
    "mobile_debug_handles.pkl": RecordKind.HANDLES,
    "mobile_debug.pkl": RecordKind.PATHS,
    "delegated_backends.debug_pkl": RecordKind.DELEGATED,
    "code/__torch__.py.debug_pkl": RecordKind.RANGES,
    "debug/m.pkl": RecordKind.RANGES,
    "code/__torch__.py": RecordKind.CODE,
    "data/0": RecordKind.TENSOR,
    "tensors/0": RecordKind.TENSOR,
    "constants/0": RecordKind.TENSOR,
    ".data/94.storage": RecordKind.TENSOR,
    "data/aotinductor/model/kernel.so": RecordKind.OTHER,
    "data/sample_inputs/model.pt": RecordKind.OTHER,
    "extra/notes.txt": RecordKind.EXTRA,
    "extra/code/m.py.debug_pkl": RecordKind.EXTRA,
    "extra/debug.ptdbg": RecordKind.COMPANION,
    "extra/migrated.ptdbg": RecordKind.ASIDE,
    "version": RecordKind.FORMAT,
    ".data/serialization_id": RecordKind.FORMAT,
    ".data/extern_modules": RecordKind.OTHER,
    "resources/words.txt": RecordKind.OTHER,
}


@pytest.mark.parametrize("name", KINDS)
def test_a_name_tells_the_kind(name: str) -> None:
    assert kind_of(name) is KINDS[name]


@pytest.mark.parametrize(
    ("code", "ranges"),
    [("code/__torch__/m.py", "code/__torch__/m.py.debug_pkl"), ("code/m.py", "debug/m.pkl")],
)
def test_code_and_its_ranges_lead_to_each_other(code: str, ranges: str) -> None:
    assert is_code(code)
    assert not is_code(ranges)
    assert holds_ranges(ranges)
    assert not holds_ranges(code)
    assert code_of(ranges) == code
    assert ranges in range_records_of(code)


def test_pytorch_1_2_put_ranges_into_a_folder_of_their_own() -> None:
    assert range_records_of("code/m.py") == ("code/m.py.debug_pkl", "debug/m.pkl")


# --- Releases by their names, and ranges of them as text


@pytest.mark.parametrize(
    ("name", "number"),
    [("1.9", (1, 9)), ("1.9.0", (1, 9)), ("v2.1.2+cu118", (2, 1)), ("latest", LATEST), ("1.13", (1, 13))],
)
def test_a_release_has_names(name: str, number: tuple[int, int]) -> None:
    assert number_of(name) == number


@pytest.mark.parametrize("name", ["", "1", "1.14", "3.0", "1.9.0.0", "1.9-rc1", "Latest", "1.٩", "0.4"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ArchiveError, match=r"expected a release from 1\.0 to 2\.13, or latest, found"):
        number_of(name)


def test_every_release_has_one_row() -> None:
    for number in RELEASE_NUMBERS:
        row = release(number)
        assert row.first <= number <= row.last
        assert number_of(shown(number)) == number


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [((1, 9), (1, 9), "1.9"), ((1, 10), (1, 11), "1.10 to 1.11"), ((2, 1), LATEST, "2.1 or later")],
)
def test_a_range_of_releases_is_told(first: tuple[int, int], last: tuple[int, int], text: str) -> None:
    assert spanned(first, last) == text
