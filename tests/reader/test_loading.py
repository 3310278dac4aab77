"""The list of PyTorch's checks: it agrees with PyTorch 2.13, and ``verify`` reports it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive.check.verify import verify
from archive.debuginfo.model import Generation
from archive.formats.callstack_map import build_callstack_map
from archive.reader.loading import CHECKS, has_checks, refusals, refusals_as_before
from archive.reader.recognition import FileKind
from tests.support.commands import well
from tests.support.corpus import ARCHIVES, CALLSTACKS, FIXTURES, HANDLES, ORACLES, RELEASES
from tests.support.halves import era
from tests.support.sampling import sampled
from tests.support.tampering import LINEAR, PLAIN, STACK, edited, handles, methods, ranges, tampered, without

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.debuginfo.handle_tables import HandleTable, MethodTable

KNOWN = json.loads((RELEASES / "oracle-2.13.0.json").read_text("utf-8"))
MENDS = "; `debug-archive migrate --to latest` mends it"


def refused(data: bytes) -> list[str]:
    """PyTorch's messages for an archive, by the list."""
    with archive.open(data) as opened:
        return [one.check.message for one in refusals(opened)]


def test_the_checks_are_about_torchscript_outside_of_packages() -> None:
    checked = {kind for kind in FileKind if has_checks(kind)}
    assert checked == {FileKind.TORCHSCRIPT, FileKind.LITE, FileKind.SPLIT}


@pytest.mark.parametrize("path", [FIXTURES / "exported/shop.pt2", FIXTURES / "executorch/shop.etrecord"])
def test_a_file_without_checks_has_no_refusals(path: Path) -> None:
    with archive.open(path) as opened:
        assert refusals(opened) == refusals_as_before(opened, opened) == []


@pytest.mark.parametrize("folder", sampled(sorted({name.partition("/")[0] for name in KNOWN}), by=[era]))
def test_of_each_releases_archives_those_are_refused_that_pytorch_refused(folder: str) -> None:
    for name, said in KNOWN.items():
        if name.startswith(f"{folder}/"):
            errors = [said[one] for one in ("load_error", "lite_load_error") if one in said]
            found = refused((RELEASES / name).read_bytes())
            assert len(found) == len(errors), name
            assert all(one in error for one, error in zip(found, errors, strict=True)), name


def test_pytorch_2_13_refuses_nothing_of_the_oracles() -> None:
    assert {path for path in ARCHIVES if path.is_relative_to(ORACLES) and refused(path.read_bytes())} == set()


def test_archives_of_other_releases_are_well_and_what_refuses_them_is_noted() -> None:
    notes = {
        name: [one for one in verify(RELEASES / name) if "refuses it" in one.message]
        for name, said in KNOWN.items()
        if "load_error" in said or "lite_load_error" in said
    }
    assert {one.severity for found in notes.values() for one in found} == {"note"}
    assert {len(found) for found in notes.values()} == {1}
    (three,) = notes["torch-1.9.0/nested.ptl"]
    assert str(three) == (
        f"{CALLSTACKS}: rows of three elements, as PyTorch 1.9 wrote them; PyTorch 2.13's lite interpreter "
        "refuses it: "
        f'"{FOUR}"{MENDS}'
    )
    assert all(str(notes[name][0]).endswith(MENDS) for name in notes if "lowered" in name)


def mapped(change: Callable[[HandleTable], HandleTable]) -> bytes:
    return tampered(STACK, handles(STACK, change))


def counted(change: Callable[[MethodTable], MethodTable]) -> bytes:
    return tampered(STACK, methods(STACK, change))


def three_elements() -> bytes:
    with archive.open(STACK) as opened:
        assert opened.handle_table is not None
        made = build_callstack_map(opened.handle_table, Generation.CALLSTACK_3)
    return tampered(STACK, {CALLSTACKS: made})


def an_untagged_row_that_the_map_leads_to() -> bytes:
    untagged = tampered(STACK, ranges(STACK, f"{LINEAR}.debug_pkl", tag={2: -1}))
    return tampered(untagged, handles(STACK, lambda table: edited(table, tag={4: -1})))


def written(old: str, new: str, path: Path = ORACLES / "plain_free_functions.pt") -> bytes:
    """An archive with a change in its generated code."""
    return tampered(path, {PLAIN: lambda data: data.replace(old.encode(), new.encode())})


ENUMS = FIXTURES / "canaries" / "enums.ptl"
FOUR = next(check.message for check in CHECKS if "four elements" in check.message)
TAG = "Source range tag must exist in deserialized source range map."
BROKEN: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "a row's tag": (lambda: mapped(lambda t: edited(t, tag={4: 17})), TAG, MENDS),
    "a row's tag -1": (lambda: mapped(lambda t: edited(t, tag={4: -1})), TAG, MENDS),
    "a call's tag": (
        lambda: mapped(lambda t: edited(t, call_tag={0: 17})),
        f"{TAG} Not found source range tag",
        MENDS,
    ),
    "no tags": (lambda: without(STACK, lambda name: name.endswith(".debug_pkl")), TAG, ""),
    "a handle twice": (
        lambda: mapped(lambda t: edited(t, handle={3: int(t.handle[0])})),
        "Debug handles should be unique.",
        "",
    ),
    "fewer handles": (
        lambda: counted(lambda t: replace(t, first=np.maximum(t.first - 1, 0), value=t.value[1:])),
        "The numbers of instructions and debug handles strings do not match.",
        "",
    ),
    "another method": (
        lambda: tampered(STACK, {HANDLES: lambda data: data.replace(b"Stack.forward", b"Stack.forwarD")}),
        "The function names in the bytecode table and the debug info table do not match.",
        "",
    ),
    "fewer methods": (
        lambda: counted(lambda t: replace(t, name=t.name[1:], first=t.first[:1], value=t.value[:0])),
        "The numbers of bytecode values and debug info values do not match.",
        "",
    ),
    "an enum": (ENUMS.read_bytes, "Expected GenericDict but got", ""),
    "no data.pkl": (
        lambda: tampered(STACK, {"data.pkl": None}),
        "PytorchStreamReader failed locating file data.pkl: file not found",
        "",
    ),
    "a function's name": (lambda: written("project", "größe"), "expected a valid token but found", ""),
    "a string that does not end": (
        lambda: written("w = self.w", 'w, s = self.w, "größe'),
        "expected a valid token but found",
        "",
    ),
    "a string of lines that does not end": (
        lambda: written("w = self.w", "w, s = self.w, " + "'" * 3 + '""'),
        "expected a valid token but found",
        "",
    ),
    "an attribute's name": (
        lambda: written("self.w\n", 'getattr(self, "gr\\0)+\\//.")\n'),
        "ill formed octal specifier",
        "",
    ),
    "no constants.pkl": (
        lambda: tampered(STACK, {"constants.pkl": None}),
        "PytorchStreamReader failed locating file constants.pkl: file not found",
        "",
    ),
}
OTHERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "three elements": (three_elements, FOUR),
    "a later version": (
        lambda: tampered(STACK, {"version": b"11\n"}),
        "Attempted to read a PyTorch file with version",
    ),
}
TAKEN: dict[str, Callable[[], bytes]] = {
    "a call without a tag": lambda: mapped(lambda t: edited(t, call_tag={0: -1})),
    "a tag -1 that a range has": an_untagged_row_that_the_map_leads_to,
    "an unknown handle": lambda: counted(lambda t: edited(t, value={0: 99999})),
    "no map": lambda: tampered(STACK, {CALLSTACKS: None}),
    "no handles": lambda: tampered(STACK, {HANDLES: None}),
    "strings that are not ASCII": lambda: written(
        "w = self.w", r'w, s = self.w, "ü\303\274\\\\0)\"" # größe \0'
    ),
    "two versions": lambda: tampered(STACK, {"version": b"99\n", ".data/version": b"6\n"}),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_contradicts_itself_is_an_error_with_pytorchs_message(what: str) -> None:
    make, message, way_out = BROKEN[what]
    data = make()
    assert refused(data) == [message]
    told = [str(one) for one in verify(data) if one.severity == "error" and "refuses it" in one.message]
    assert len(told) == 1
    assert told[0].endswith(f' refuses it: "{message}"{way_out}')


@pytest.mark.parametrize("what", OTHERS)
def test_what_another_release_reads_is_a_note(what: str) -> None:
    make, message = OTHERS[what]
    data = make()
    assert refused(data) == [message]
    assert [one.severity for one in verify(data) if f'refuses it: "{message}"' in one.message] == ["note"]


@pytest.mark.parametrize("what", TAKEN)
def test_what_pytorch_takes_is_not_said_to_be_refused(what: str) -> None:
    assert refused(TAKEN[what]()) == []


def test_names_that_are_not_ascii_are_told_with_their_places() -> None:
    found = [str(one) for one in verify(written("scale", "größe")) if "ASCII" in one.message]
    with archive.open(written("scale", "größe")) as opened:
        code = bytes(opened.records[PLAIN].view())
    places = [one.start() + len("gr") for one in re.finditer("größe".encode(), code)]
    assert found == [f"{PLAIN}, byte {byte}: a name that is not ASCII" for byte in places]


def test_of_the_code_of_lite_archives_nothing_is_said() -> None:
    assert refused(written("forward", "größe", STACK)) == []


@pytest.mark.parametrize("what", BROKEN)
def test_a_contradiction_that_was_not_there_before_is_never_written(what: str) -> None:
    data = BROKEN[what][0]()
    with archive.open(STACK) as before, archive.open(data) as after:
        with pytest.raises(archive.ArchiveError, match=r"refuses it: .*nothing is written"):
            refusals_as_before(after, before)
        assert refusals_as_before(after, after) == refusals(after)


def test_one_that_is_left_is_told(tmp_path: Path) -> None:
    make, message, _ = BROKEN["another method"]
    (tmp_path / "in.ptl").write_bytes(make())
    told = f'PyTorch 2.13\'s lite interpreter refuses it: "{message}"\n'
    assert f"{told}except for the refusals above, PyTorch loads it where" in well(
        "shrink", tmp_path / "in.ptl", "-o", tmp_path / "small.ptl"
    )
    migrated = well("migrate", tmp_path / "in.ptl", "-o", tmp_path / "new.ptl", "--to", "2.0")
    assert told in migrated
    split = well("split", tmp_path / "in.ptl", "-o", tmp_path / "left.ptl", "-c", tmp_path / "left.ptdbg")
    assert f"{told}{HANDLES} stayed\n" in split
    bare = well("shrink", tmp_path / "in.ptl", "-o", tmp_path / "bare.ptl", "--level", "embed")
    assert "refuses" not in bare


@pytest.mark.torch
def test_pytorch_says_the_same() -> None:
    """One test for all archives: PyTorch loads each in milliseconds, but takes seconds to be imported."""
    pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.torch_oracles import loads  # noqa: PLC0415 (imports PyTorch)

    for what, (make, message) in {**{name: case[:2] for name, case in BROKEN.items()}, **OTHERS}.items():
        errors = loads(make())
        assert any(re.sub(r"\s+", " ", message) in error for error in errors), what
    for what, taken in TAKEN.items():
        assert loads(taken()) == [], what
    tried = {message for _, message, *_ in [*BROKEN.values(), *OTHERS.values()]}
    told = {error for said in KNOWN.values() for key, error in said.items() if key.endswith("load_error")}
    untried = [one for one in CHECKS if one.message not in tried and not any(one.message in e for e in told)]
    assert untried == []
