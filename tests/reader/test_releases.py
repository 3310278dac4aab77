"""Releases by name, what each writes, and which of them an archive comes from."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError
from archive.debuginfo.model import Generation, RangeLayout
from archive.formats import callstack_map, method_handles, releases, source_ranges
from archive.formats.record_kinds import MIGRATED
from archive.formats.releases import (
    LATEST,
    LOADED_BYTECODE,
    RELEASE_NUMBERS,
    RELEASES,
    number_of,
    release,
    spanned,
    writers,
    writers_of_ranges,
)
from archive.reader.provenance import provenance
from tests.support import slow_reader
from tests.support.commands import told, well
from tests.support.corpus import (
    ARCHIVES,
    CALLSTACKS,
    DELEGATED,
    FIXTURES,
    HANDLES,
    KINDS,
    PATHS,
    raw_records,
)
from tests.support.corpus import RELEASES as FOLDER
from tests.support.documents import file_of
from tests.support.migrations import LEGACY, layouts, migrated, original, records, release_of
from tests.support.sampling import sampled
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from archive.formats.releases import Release
    from archive.reader.provenance import Provenance
    from tests.support.tampering import Change

EPOCH = FIXTURES / "training" / "epoch1.pt"
GROUPS = sorted({path.parent.name for path in ARCHIVES})
SCRIPTS = [FOLDER / name / "nested.pt" for name in GROUPS if name.startswith("torch-")]
LITE = [path for path in ARCHIVES if path.name == "nested.ptl"]
ID, BYTEORDER = ".data/serialization_id", "byteorder"
MODELS = "code/__torch__/models.py.debug_pkl"


def of(source: Path | bytes) -> Provenance:
    with archive.open(source) as opened:
        return provenance(opened)


def signs(found: Provenance) -> set[str]:
    """What speaks against it."""
    return {one.record for one in found.against}


# --- torch.save

SAVED = {
    "1.5.1": "1.5",
    "1.6.0": "1.6 to 1.8",
    "1.8.1": "1.6 to 1.8",
    "1.12.1": "1.9 to 2.0",
    "1.13.1": "1.13 to 2.0",
    "2.0.1": "1.13 to 2.0",
    "2.6.0": "2.1 to 2.6",
    "2.7.1": "2.7 or later",
}
"""Releases that saved a state dict, and what the zip proves."""


@pytest.mark.parametrize("release", SAVED)
def test_a_zip_by_torch_save_is_of_the_releases_that_write_it_so(release: str) -> None:
    found = of(FIXTURES / "saved" / f"torch-{release}.pt")
    assert str(found) == f"PyTorch {SAVED[release]}"
    assert found.includes(number_of(release))


@pytest.mark.parametrize("path", [KINDS / "state_dict.pt", KINDS / "object.pt", KINDS / "tensor.pt", EPOCH])
def test_zips_of_the_latest_torch_save_have_no_sign_against_them(path: Path) -> None:
    found = of(path)
    assert (found.first, found.last, found.against) == ((2, 7), LATEST, ())


def test_a_record_that_another_release_writes_is_a_sign_against() -> None:
    found = of(tampered(FIXTURES / "saved" / "torch-2.6.0.pt", {".format_version": b"1"}))
    assert (str(found), signs(found)) == ("PyTorch 2.1 to 2.6", {".format_version"})


@pytest.mark.parametrize(
    ("renamed", "says"),
    [({}, ["storages are numbered"]), ({"data/1": None, "data/7": b""}, []), ({"data/name": b""}, [])],
    ids=["few", "gap", "name"],
)
def test_keys_that_prove_nothing_are_no_signs(renamed: dict[str, bytes | None], says: list[str]) -> None:
    with archive.open(tampered(KINDS / "state_dict.pt", renamed)) as opened:
        told = [sign.says for sign in provenance(opened).evidence if sign.record == "data/"]
    assert told == says


# --- names


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("1.9", (1, 9)),
        ("v1.9.0", (1, 9)),
        ("1.9.1", (1, 9)),
        ("1.10", (1, 10)),
        ("2.13.0+cpu", (2, 13)),
        ("2.1.0+cu118", (2, 1)),
        ("1.0.1", (1, 0)),
        ("latest", (2, 13)),
    ],
)
def test_a_release_is_known_by_its_name(name: str, number: tuple[int, int]) -> None:
    assert number_of(name) == number


@pytest.mark.parametrize(
    "name",
    [
        *("2.14", "3.0", "0.4", "1.14", "1." + "9" * 5000),
        *("", "1", "1.9.", ".9", "1.9 ", "1.9\n", "-1.9", "1.9+", "1.9.x", "1.9.0.0"),
        *("Latest", "main", "2.13.0a0+git", "1.\u0669", "\uff11.9", "1.9.\xb2", "2.13.0+\xe9"),
    ],
)
def test_what_is_no_release_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        number_of(name)
    assert caught.value.expected == "a release from 1.0 to 2.13, or latest"
    assert caught.value.found == name


def test_spans_of_releases_are_told_in_words() -> None:
    assert spanned((1, 9), (1, 9)) == "1.9"
    assert spanned((1, 10), (1, 11)) == "1.10 to 1.11"
    assert spanned((2, 1), LATEST) == "2.1 or later"
    assert spanned(LATEST, LATEST) == "2.13"


# --- the table


def test_the_table_has_every_release_once_and_in_order() -> None:
    assert [
        number for one in RELEASES for number in RELEASE_NUMBERS if one.first <= number <= one.last
    ] == list(RELEASE_NUMBERS)
    assert list(RELEASE_NUMBERS) == sorted(set(RELEASE_NUMBERS))
    assert (RELEASE_NUMBERS[0], RELEASE_NUMBERS[-1]) == ((1, 0), LATEST) == ((1, 0), (2, 13))
    for number in RELEASE_NUMBERS:
        assert release(number).first <= number <= release(number).last


def test_what_came_with_a_release_stayed() -> None:
    for one, following in pairwise(RELEASES):
        assert following.byteorder >= one.byteorder
        assert following.delegated >= one.delegated
        assert following.version_first <= one.version_first
        assert following.legacy <= one.legacy
        assert (following.bytecode or 0) >= (one.bytecode or 0)
        assert (following.callstacks is not None) >= (one.callstacks is not None)
    assert all(one.bytecode is None or one.bytecode in LOADED_BYTECODE for one in RELEASES[5:])


def told_in_docstring(release: Release, previous: Release | None) -> list[str]:
    """A row of the table in the docstring of ``releases``."""
    first, last = (f"{number[0]}.{number[1]}" for number in (release.first, release.last))
    years = [n for n in RELEASE_NUMBERS if release.first <= n <= release.last]
    containers = {
        (True, True): "``model.json``",
        (False, True): "``version`` first",
        (False, False): "``byteorder``, id last" if release.byteorder else "``version`` last",
    }
    container = containers[release.legacy, release.version_first]
    if previous and not release.byteorder and not release.version_first and not previous.version_first:
        container = "the same"
    call_stacks = {None: "none", Generation.CALLSTACK_3: "3 elements", Generation.CALLSTACK_4: "4 elements"}
    instructions = {
        None: "none",
        Generation.MODULE_PATHS: "module paths",
        Generation.METHOD_HANDLES: "handles",
    }
    return [
        first if first == last else f"{first}{', ' if len(years) == 2 else ' - '}{last}",
        str(release.ranges or "none"),
        call_stacks[release.callstacks],
        instructions[release.instructions],
        "yes" if release.delegated else "no",
        str(release.bytecode or "none"),
        container,
    ]


def test_the_docstring_shows_the_table() -> None:
    _, _, lines, _ = re.split("=  =.*", releases.__doc__ or "", maxsplit=3)
    rows = [re.split("  +", line) for line in lines.strip("=\n ").split("\n") if line.strip("= ")]
    assert rows == [told_in_docstring(*pair) for pair in zip(RELEASES, (None, *RELEASES), strict=False)]


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "formats.md").read_text()


@pytest.mark.parametrize(
    ("text", "start", "span"),
    [
        (PAGE, "| source ranges: pair rows | ", writers(ranges=RangeLayout.PAIR)),
        (PAGE, "| source ranges: tag-first rows | builds between ", writers_of_ranges(RangeLayout.TAG_FIRST)),
        (PAGE, "| source ranges: inline rows | ", writers(ranges=RangeLayout.INLINE)),
        (PAGE, "| source ranges: string table | ", writers_of_ranges(RangeLayout.STRING_TABLE)),
        (PAGE, "`callstack_debug_map.pkl`, 3 and 4 elements | ", writers(callstacks=Generation.CALLSTACK_3)),
        (PAGE, "3 and 4 elements | 1.9.0; ", writers(callstacks=Generation.CALLSTACK_4)),
        (PAGE, "| `mobile_debug_handles.pkl` | ", writers(instructions=Generation.METHOD_HANDLES)),
        (PAGE, "| `mobile_debug.pkl` | ", writers(instructions=Generation.MODULE_PATHS)),
        (PAGE, "| `.data/serialization_id` | ", writers(byteorder=True)),
        (source_ranges.__doc__, "*pair rows*, ", writers(ranges=RangeLayout.PAIR)),
        (source_ranges.__doc__, "builds between ", writers_of_ranges(RangeLayout.TAG_FIRST)),
        (source_ranges.__doc__, "*inline rows*, ", writers(ranges=RangeLayout.INLINE)),
        (source_ranges.__doc__, "*string table*, ", writers_of_ranges(RangeLayout.STRING_TABLE)),
        (source_ranges.__doc__, "``delegated_backends.debug_pkl`` (", writers(delegated=True)),
        (callstack_map.__doc__, "- 3 elements, ", writers(callstacks=Generation.CALLSTACK_3)),
        (callstack_map.__doc__, "- 4 elements, PyTorch ", writers(callstacks=Generation.CALLSTACK_4)),
        (method_handles.__doc__, "handles.pkl``, PyTorch ", writers(instructions=Generation.METHOD_HANDLES)),
        (method_handles.__doc__, "debug.pkl``, ", writers(instructions=Generation.MODULE_PATHS)),
    ],
)
def test_pages_say_who_writes_a_record_as_the_table_does(
    text: str, start: str, span: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    number = r"(\d+\.\d+)(?:\.0)?"
    match = re.search(re.escape(start) + number + rf"(?: on\b|(?:,| to| and) {number})?", text)
    assert match is not None
    last = "latest" if match[0].endswith(" on") else match[2] or match[1]
    assert (number_of(match[1]), number_of(last)) == span


WORDS = {
    RangeLayout.PAIR: "pair rows",
    RangeLayout.INLINE: "inline rows",
    RangeLayout.STRING_TABLE: "string table",
}


@pytest.mark.parametrize("path", [*SCRIPTS, *LITE], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_archive_is_as_the_table_says_of_its_release(path: Path) -> None:
    said = release(number_of(release_of(path)))
    had = original(path)
    names = list(had)
    assert ("model.json" in names) == said.legacy
    assert (BYTEORDER in names, ID in names) == (said.byteorder, said.byteorder)
    assert (names[0] == "version") == said.version_first
    if not said.legacy:
        assert layouts(had) == {WORDS[layout] for layout in [said.ranges] if layout is not None}
    assert (CALLSTACKS in names) <= (said.callstacks is not None)
    assert (HANDLES in names) <= (said.instructions is Generation.METHOD_HANDLES)
    assert (PATHS in names) <= (said.instructions is Generation.MODULE_PATHS)
    if path.suffix == ".ptl":
        assert {HANDLES, PATHS} & set(names)
        assert (DELEGATED in names) == said.delegated
        assert slow_reader.load(had["bytecode.pkl"])[0] == said.bytecode
    if CALLSTACKS in names:
        width = 4 if said.callstacks is Generation.CALLSTACK_4 else 3
        assert {len(row) for row in slow_reader.load(had[CALLSTACKS])} == {width}


# --- where an archive comes from


@pytest.mark.parametrize("name", GROUPS)
def test_an_archive_s_own_release_is_among_those_it_may_come_from(name: str) -> None:
    for path in sampled([path for path in ARCHIVES if path.parent.name == name]):
        found = of(path)
        assert found.includes(number_of(release_of(path))), path
        assert found.against == ()


def test_no_other_release_writes_what_only_one_writes() -> None:
    exactly = {
        "torch-1.5.0/nested.pt": "1.5",
        "torch-1.8.0/nested.ptl": "1.7 to 1.8",
        "torch-1.9.0/nested.ptl": "1.9",
        "torch-1.11.0/nested.ptl": "1.10 to 1.11",
        "torch-1.12.0/nested.ptl": "1.12 to 2.0",
        "torch-2.13.0/nested.ptl": "2.1 or later",
        "torch-1.2.0/nested.pt": "1.2",
        "torch-1.8.0/lowered-host.pt": "1.6 to 1.8",
        "torch-1.10.0/lowered.pt": "1.10",
    }
    assert {name: str(of(FOLDER / name)) for name in exactly} == {
        name: f"PyTorch {span}" for name, span in exactly.items()
    }


def test_every_sign_is_told_with_what_it_says() -> None:
    found = of(FOLDER / "torch-1.9.0" / "nested.ptl")
    assert [str(one) for one in found.evidence] == [
        "data.pkl: there is one (1.3 or later)",
        "mobile_debug_handles.pkl: there is one (1.9 or later)",
        "delegated_backends.debug_pkl: there is none beside the handles (1.9)",
        "byteorder: none (1.0 to 2.0)",
        ".data/serialization_id: none (1.0 to 2.0)",
        "version: 3 (1.6 or later)",
        "version: after the others (1.6 or later)",
        "1 source-range record: inline rows (1.9 or later)",
        "callstack_debug_map.pkl: call-stack map, 3 elements (1.9)",
        "bytecode.pkl: version 5 (1.9)",
    ]


NESTED = FOLDER / "torch-2.13.0" / "nested.ptl"
OLD_RANGES = original(FOLDER / "torch-1.8.0" / "nested.ptl")[MODELS]
ALTERED: dict[str, tuple[dict[str, Change], set[str]]] = {
    "no byteorder": ({BYTEORDER: None}, {BYTEORDER, ID}),
    "no serialization id": ({ID: None}, {BYTEORDER, ID}),
    "source ranges of 1.8": ({MODELS: OLD_RANGES}, {"1 source-range record"}),
    "call stacks of 1.9": (
        {CALLSTACKS: original(FOLDER / "torch-1.9.0" / "nested.ptl")[CALLSTACKS]},
        {CALLSTACKS},
    ),
    "bytecode of 1.8": (
        {"bytecode.pkl": original(FOLDER / "torch-1.8.0" / "nested.ptl")["bytecode.pkl"]},
        {"bytecode.pkl"},
    ),
    "module paths": ({PATHS: original(FOLDER / "torch-1.8.0" / "nested.ptl")[PATHS]}, {PATHS}),
    "no delegated record": ({DELEGATED: None}, {DELEGATED}),
    "another version": ({"version": b"1\n"}, {"version"}),
    "a version that is none": ({"version": "٣".encode()}, set()),
    "a huge version": ({"version": b"9" * 5000}, set()),
    "a module tree of 1.2": ({"model.json": b"{}"}, {"model.json"}),
}


@pytest.mark.parametrize("what", ALTERED)
def test_one_altered_record_does_not_turn_the_answer_around(what: str) -> None:
    changes, against = ALTERED[what]
    found = of(tampered(NESTED, changes, renewed=ID not in changes))
    assert found.first <= (2, 13) <= found.last
    assert found.first >= (1, 12)
    assert signs(found) == against
    assert found.includes((2, 13)) == (not against)


def test_a_version_in_other_digits_says_nothing() -> None:
    for version, says in ((b"3\n", ["3", "after the others"]), ("\u0663".encode(), ["after the others"])):
        found = of(tampered(NESTED, {"version": version}))
        assert [one.says for one in found.evidence if one.record == "version"] == says


@pytest.mark.parametrize("path", LITE, ids=lambda path: path.parent.name)
def test_any_record_that_is_gone_or_new_leaves_the_release_among_those_told(path: Path) -> None:
    number = number_of(release_of(path))
    names = [one.name for one in raw_records(path)]
    told_of = {"version", BYTEORDER, ID, DELEGATED, HANDLES, CALLSTACKS, PATHS, "bytecode.pkl", MODELS}
    for name in told_of & set(names):
        found = of(tampered(path, {name: None}, renewed=False))
        assert found.first <= number <= found.last, name
    for name, data in ((BYTEORDER, b"little"), (ID, b"0" * 40)):
        if name not in names:
            found = of(tampered(path, {name: data}))
            assert found.first <= number <= found.last, name
            assert name in signs(found)


def test_records_that_contradict_one_another_evenly_are_all_told() -> None:
    path = FOLDER / "torch-1.8.0" / "nested.ptl"
    new = original(FOLDER / "torch-1.9.0" / "nested.ptl")
    found = of(tampered(path, {HANDLES: new[HANDLES], CALLSTACKS: new[CALLSTACKS]}))
    assert {PATHS, HANDLES, CALLSTACKS} <= signs(found)
    assert not any(found.includes(number) for number in RELEASE_NUMBERS)


def test_a_migrated_archive_comes_from_its_target_but_for_what_could_not_be_made() -> None:
    for to in ("1.6", "1.8", "1.9", "1.11", "2.0", "2.13"):
        found = of(migrated(FOLDER / "torch-1.12.0" / "consts.pt", to).data)
        assert found.includes(number_of(to)), to
    found = of(migrated(FOLDER / "torch-1.12.0" / "consts.pt", "1.4").data)
    assert signs(found) == {"version"}  # which tells how the operators in the code are meant


# --- inspect


def test_inspect_tells_where_an_archive_comes_from(tmp_path: Path) -> None:
    path = FOLDER / "torch-1.9.0" / "nested.ptl"
    assert well("inspect", path).splitlines()[2] == "of PyTorch 1.9, as all 10 signs say"
    origin = told("inspect", path)["origin"]
    assert isinstance(origin, dict)
    assert (origin["first"], origin["last"], origin["against"]) == ([1, 9], [1, 9], [])
    assert [one["record"] for one in origin["evidence"]] == [one.record for one in of(path).evidence]

    odd = tmp_path / "odd.ptl"
    odd.write_bytes(tampered(NESTED, {MODELS: OLD_RANGES}))
    lines = well("inspect", odd).splitlines()
    assert lines[2].startswith("of PyTorch 2.1 or later, as ")
    count = len(of(odd).evidence)
    assert lines[2].endswith(f"as {count - 1} of {count} signs say")
    assert lines[3] == "  but 1 source-range record: pair rows (1.3 to 1.8)"
    origin = file_of(well("inspect", odd, "--json"))["origin"]
    assert [one["says"] for one in origin["against"]] == ["pair rows"]


def test_inspect_tells_that_an_archive_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "new.ptl"
    path.write_bytes(migrated(FOLDER / "torch-1.9.0" / "nested.ptl", "2.13").data)
    assert MIGRATED in records(path.read_bytes())
    assert told("inspect", path)["migrated"] is True
    assert told("inspect", NESTED)["migrated"] is False
    assert "; migrated: `debug-archive migrate` can give what it was" in well("inspect", path).splitlines()[2]
    assert "migrated" not in well("inspect", NESTED).splitlines()[2]


def test_the_legacy_releases_are_those_without_a_module_tree_in_a_pickle() -> None:
    assert {
        name for name in GROUPS if name.startswith("torch-") and release(number_of(name[6:])).legacy
    } == LEGACY
