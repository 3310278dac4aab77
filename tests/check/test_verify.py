"""``verify`` of real and of broken archives, and its rules for records as such."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING
from unittest import mock

import pytest

import archive
from archive.base.diagnostics import Diagnostics
from archive.base.errors import ArchiveError
from archive.base.limits import Limits
from archive.check.verify import Diagnostic, verify
from archive.container.write import member_from, new_member
from tests.support.corpus import ARCHIVES, CALLSTACKS, DELEGATED, HANDLES, KINDS, RELEASES
from tests.support.halves import companion_of
from tests.support.sampling import sampled
from tests.support.tampering import (
    LINEAR,
    LOWERED,
    MODELS,
    NESTED_1_2,
    NESTED_1_8,
    PLAIN,
    STACK,
    packed,
    ranges,
    said,
    tampered,
    without,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tampering import Change

OTHER_NAMES = "The function names in the bytecode table and the debug info table do not match."
ID = ".data/serialization_id"


def test_what_pytorch_wrote_is_well() -> None:
    assert len(ARCHIVES) == 259
    chosen = sampled(ARCHIVES, most=40, by=[lambda path: path.parent.name])
    found = {path: findings for path in chosen if (findings := said(path))}
    assert found == {
        RELEASES / "torch-1.0.1" / "nested.pt": ["note: no source ranges for any of 2 code records"]
    }


def test_an_archive_can_be_given_as_a_path_a_buffer_a_file_or_opened() -> None:
    data = tampered(STACK, {"version": b"three\n"})
    expected = [Diagnostic("error", "version", "", r"expected a number, found b'three\n'")]
    assert verify(data) == expected
    assert verify(io.BytesIO(data)) == expected
    with archive.open(data) as opened:
        assert verify(opened) == expected
        assert verify(opened) == expected
        assert bytes(opened.records["version"].view()) == b"three\n"
    assert verify(str(STACK)) == []
    with pytest.raises(FileNotFoundError):
        verify(STACK.with_name("missing.ptl"))


@pytest.mark.parametrize("size", [0, 1, 21, 1000, -1, -22, -98, -500])
def test_a_file_cut_short_gives_the_readers_error(size: int) -> None:
    data = STACK.read_bytes()[:size]
    with pytest.raises(ArchiveError) as raised:
        archive.open(data)
    (finding,) = verify(data)
    assert finding.severity == "error"
    assert f"archive in memory: {finding}" == str(raised.value)


def test_a_file_that_is_none_is_not_checked_and_named() -> None:
    (finding,) = said(b"no archive\n\n")
    assert finding == (
        "not checked: a text file (it begins with 'no archive'): if it was meant to be a model, look at what "
        "it says; if it is a log, give the model, too: `symbolicate MODEL --log LOG`"
    )


def test_limits_are_kept() -> None:
    (finding,) = verify(STACK, limits=Limits(name_bytes=20))
    assert str(finding).startswith("byte 10590: name_bytes is limited to 20, found ")
    with archive.open(STACK) as opened:
        taken = opened.allowance.taken
    (finding,) = verify(STACK, limits=Limits(memory=taken - 1))
    assert str(finding).startswith(f"memory is limited to {taken - 1:,}, found {taken:,} with entries; ")
    first, *others = verify(STACK, limits=Limits(memory=taken + 20_000))
    assert first.message.startswith("the source ranges of all records together: memory is limited to ")
    assert CALLSTACKS in {other.record for other in others if "memory is limited to" in other.message}


def test_all_problems_are_listed_in_the_order_of_the_records() -> None:
    changes: dict[str, Change] = {
        "data.pkl": b"\x80\x02K",
        **ranges(STACK, PLAIN + ".debug_pkl", offset={3: 350}, end={2: 200}),
        **ranges(STACK, LINEAR + ".debug_pkl", tag={1: -1}),
        HANDLES: lambda data: data.replace(b"Stack.forward", b"Stack.forwarD"),
        DELEGATED: b"",
        CALLSTACKS: lambda data: data[:-1] + b"t.",
        "version": None,
    }
    found = verify(tampered(STACK, changes, renewed=False))
    assert [(one.severity, one.record, one.place) for one in found] == [
        ("error", "", ""),
        ("error", "data.pkl", "byte 3"),
        ("error", PLAIN + ".debug_pkl", "row 3, field offset"),
        ("error", PLAIN + ".debug_pkl", "row 2, field range"),
        ("warning", LINEAR + ".debug_pkl", "row 1, field tag"),
        ("error", HANDLES, "row 0, field method"),
        ("error", HANDLES, ""),
        ("error", DELEGATED, "byte 0"),
        ("error", CALLSTACKS, "byte 1371"),
        ("warning", ID, ""),
    ]
    assert [one.message for one in found[:7] if one.record != "data.pkl"] == [
        "expected a record .data/version or version, found none",
        "expected more than 350, the offset before it, found 350",
        "expected start <= end <= 112, the text's end, found 49 to 200",
        "expected a tag, found -1",
        "expected '__torch__.plain.Stack.forward', as in bytecode.pkl, found '__torch__.plain.Stack.forwarD'",
        f'PyTorch 2.13\'s lite interpreter refuses it: "{OTHER_NAMES}"',
    ]


def test_at_most_a_hundred_of_a_kind_are_listed() -> None:
    record = "code/torch/jit/LoweredModule/backend_with_compiler_demo/__torch__/lowered.py.debug_pkl"
    data = tampered(LOWERED, ranges(LOWERED, record, offset=dict.fromkeys(range(107), 9), start={5: 90}))
    found = said(data)
    assert (
        found[1]
        == f"error: {record}, row 2, field offset: expected more than 9, the offset before it, found 9"
    )
    assert found[100] == f"error: {record}: … and 6 more of the offsets that do not increase"
    assert "field range" in found[101]


def test_exactly_a_hundred_of_a_kind_are_all_that_there_are() -> None:
    record = "code/torch/jit/LoweredModule/backend_with_compiler_demo/__torch__/lowered.py.debug_pkl"
    found = said(tampered(LOWERED, ranges(LOWERED, record, offset=dict.fromkeys(range(101), 9))))
    assert [line.partition(", field")[0] for line in found] == [
        f"error: {record}, row {row}" for row in range(1, 101)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_in_a_file_there_is_an_answer(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 (no secret)
    path = chance.choice(ARCHIVES)
    with archive.open(path) as opened:
        names = [name for name in opened.records if name.endswith("pkl")] or ["version"]

    def damaged(data: bytes) -> bytes:
        at = chance.randrange(len(data))
        other = bytes(
            chance.choices([*range(256), *b"KMJX()tqhre.]}cRQb\x85\x86\x87"], k=chance.randrange(4))
        )
        return data[:at] + other + data[at + chance.randrange(5) :]

    changes: dict[str, Change] = dict.fromkeys(chance.sample(names, min(3, len(names))), damaged)
    for finding in verify(tampered(path, changes)):
        assert "cannot be read" not in finding.message
        assert str(finding).isprintable()
    verify(damaged(path.read_bytes()))


def test_a_changed_byte_is_found_in_tensors_and_debug_records() -> None:
    with archive.open(STACK) as opened:
        tensor, code = (opened.container.records[name].place.data for name in ("data/0", PLAIN))
    data = bytearray(STACK.read_bytes())
    data[tensor] ^= 1
    data[code + 100] ^= 1
    first, second = said(bytes(data))
    why = "damaged bytes: copy or download the file again: expected crc32 0x"
    assert first.startswith(f"error: data/0, byte {tensor}: {why}")
    assert second.startswith(f"error: {PLAIN}, byte {code}: {why}")


@pytest.mark.parametrize(("more", "problem"), [(1, "found an end after 952"), (-1, "found more")])
def test_a_wrong_inflated_size_is_found(more: int, problem: str) -> None:
    with archive.open(STACK) as opened:
        members = [member_from(record) for record in opened.container.records.values()]
        changed = [replace(m, size=m.size + more) if m.name == PLAIN else m for m in members]
        (finding,) = verify(packed(changed))
    assert finding.record == PLAIN
    assert finding.message.endswith(problem)


def test_records_without_a_crc_are_noted_once() -> None:
    with archive.open(STACK) as opened:
        members = [member_from(record) for record in opened.container.records.values() if record.name != ID]
        data = packed([replace(member, crc32=0) for member in members])
    assert said(data) == ["note: no crc for 26 of 26 records: 'data/0', 'data/1', 'data/2'…"]
    alone = packed([replace(new_member("constants.pkl", b"\x80\x02).", compress=False), crc32=0)])
    assert "note: no crc for 1 of 1 record: 'constants.pkl'" in said(alone)


def test_a_single_code_record_without_source_ranges_is_named() -> None:
    code = ".data/ts_code/code/__torch__/net.py"
    data = tampered(KINDS / "package.pt", {f"{code}.debug_pkl": None})
    assert said(data) == [f"note: {code}: code without source ranges"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": None}, ["error: expected a record .data/version or version, found none"]),
        ({"version": None, ".data/version": b"10\n"}, []),
        ({"version": b""}, ["error: version: expected a number, found b''"]),
        ({".data/version": b"-1"}, ["error: .data/version: expected a number, found b'-1'"]),
        ({"extra/x.pkl": b"anything"}, []),
        ({PLAIN + ".debug_pkl": None}, [f"note: {PLAIN}: code without source ranges"]),
    ],
)
def test_records_that_are_missing_or_cannot_be_read(changes: dict[str, Change], expected: list[str]) -> None:
    data = tampered(STACK, changes)
    assert [line for line in said(data) if not line.startswith(f"error: {CALLSTACKS}, ")] == expected


VALUES, TABLES = ("data.pkl", "constants.pkl"), ("bytecode.pkl", HANDLES, CALLSTACKS)


@pytest.mark.parametrize(
    ("record", "content"),
    [
        *product(VALUES + TABLES, (b"", b"\x80", b"data", b"\x80\x02N", b"\x80\x04N.", b"\x80\x02P.")),
        *product(TABLES, (b"\x80\x02N.", b"\x80\x02K\x01.", b"\x80\x02N\x85.")),
    ],
)
def test_a_record_that_is_no_such_pickle_is_one_error(record: str, content: bytes) -> None:
    (finding,) = verify(tampered(STACK, {record: content}))
    assert (finding.severity, finding.record) == ("error", record)


@pytest.mark.parametrize(
    ("path", "code", "debug"),
    [
        (NESTED_1_8, MODELS, f"{MODELS}.debug_pkl"),
        (NESTED_1_2, "code/nested_gate.py", "debug/nested_gate.pkl"),
    ],
)
def test_source_ranges_without_code_are_warned_of(path: Path, code: str, debug: str) -> None:
    data = tampered(path, {code: None, **ranges_at_minus_one(path, debug)})
    expected = [f"warning: {debug}: source ranges without their code record '{code}'"]
    if path is NESTED_1_8:
        expected.append(f"error: {debug}, row 0, field offset: expected an offset from 0 on, found -1")
    assert said(data) == expected


def ranges_at_minus_one(path: Path, debug: str) -> dict[str, Change]:
    return ranges(path, debug, offset={0: -1}) if path is NESTED_1_8 else {}


def test_another_serialization_id_is_warned_of() -> None:
    changed = tampered(STACK, {"data/0": bytes(64)}, renewed=False)
    (finding,) = verify(changed)
    assert (finding.severity, finding.record) == ("warning", ID)
    (line,) = said(tampered(STACK, {ID: b"x"}))
    assert line.endswith("the id that PyTorch on Linux, macOS or Windows gives these records, found b'x'")


@pytest.mark.parametrize("archive_of", [STACK, KINDS / "exported.pt2", KINDS / "package.pt"])
def test_elements_in_the_order_of_another_machine_are_warned_of(archive_of: Path) -> None:
    """No loader of these kinds reads the record: ``torch.load`` alone turns elements."""
    assert not said(archive_of)
    (line,) = said(tampered(archive_of, {"byteorder": b"big"}))
    assert line.startswith(
        "warning: byteorder: expected b'little', found b'big': PyTorch 2.13 loads elements"
    )


def test_an_archive_without_debug_information_is_noted_once() -> None:
    assert said(without(STACK, lambda name: name.endswith(".debug_pkl") or name == CALLSTACKS)) == [
        "note: no source ranges for any of 6 code records",
        f"note: {HANDLES}: no {CALLSTACKS} that says what the handles stand for",
    ]


def test_handles_that_no_instruction_has_are_noted() -> None:
    assert said(without(STACK, lambda name: name == HANDLES)) == [
        f"note: {CALLSTACKS}: no {HANDLES} that gives its handles to instructions",
    ]


def test_a_finding_is_one_printable_line() -> None:
    assert str(Diagnostic("note", "", "", "text")) == "text"
    assert str(Diagnostic("note", "", "row 1", "ü")) == "row 1: ü"
    assert str(Diagnostic("error", "a\nb\udcff", "row 1", "\x1b[1m")) == r"a\nb\xff, row 1: \x1b[1m"
    code = new_member("code/m.py", b"")
    data = packed([code, new_member("version", b"3"), replace(new_member("data/\n", b"1"), crc32=1)])
    assert any(line.startswith(r"error: data/\n, byte ") for line in said(data))


def test_a_record_that_a_companion_does_not_give_back_is_named() -> None:
    companion, error = companion_of(STACK), ArchiveError(expected="a call stack", found="none")
    with mock.patch("archive.normalform.records.callstack_map.build_callstack_map", side_effect=error):
        (finding,) = verify(companion)
    assert (finding.severity, str(finding)) == ("error", f"{CALLSTACKS}: expected a call stack, found none")


def test_a_fault_of_the_library_hides_nothing() -> None:
    report = Diagnostics()
    assert report.attempt("data.pkl", lambda: int("x")) is None
    assert report.attempt("data.pkl", lambda: 1) == 1
    (finding,) = report.findings
    assert finding.severity == "internal error"
    assert str(finding).startswith("data.pkl: cannot be read: ValueError: invalid literal")


@pytest.mark.parametrize("ended", [MemoryError(), RecursionError("maximum recursion depth exceeded")])
def test_memory_and_stack_that_end_are_the_file_s_cost_and_no_fault(ended: Exception) -> None:
    report = Diagnostics()
    assert report.attempt("data.pkl", mock.Mock(side_effect=ended)) is None
    (finding,) = report.findings
    assert (finding.severity, finding.record) == ("error", "data.pkl")


def test_notes_that_say_the_same_are_one_with_their_count() -> None:
    bare = without(STACK, lambda name: name in {f"{PLAIN}.debug_pkl", f"{LINEAR}.debug_pkl"})
    assert [line for line in said(bare) if line.startswith("note")] == [
        f"note: {PLAIN}: code without source ranges; the first of 2 code records without them"
    ]
