"""Pickles that nobody should have written: each ends in a value or an error, soon, and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive import ArchiveError, LimitError, Limits
from archive.debuginfo.model import Global, Inert
from tests.support.cost import MIB, peak_below
from tests.support.programs import PROTO, STOP, get, put, text
from tests.support.readings import RANGES, archive_of, read, refused, tree_of

if TYPE_CHECKING:
    from pathlib import Path

MANY = 100_000
DEEP = MIB // 4


# --- nothing is run
ROOMY = Limits(memory=1 << 30)


@pytest.mark.parametrize("opcode", [b"R", b"\x81", b"\x81}b"])
@pytest.mark.parametrize("name", ["os system", "posix system", "builtins eval", "subprocess call"])
def test_foreign_globals_are_names_and_calls_are_descriptions(
    name: str, opcode: bytes, tmp_path: Path
) -> None:
    module, function = name.split()
    command = f"echo >{tmp_path / 'run'}"
    data = PROTO + f"c{module}\n{function}\n".encode() + text(command.encode()) + b"\x85" + opcode + STOP
    with archive_of(data=data) as opened:
        state: object = {} if opcode.endswith(b"b") else None
        assert opened.data == Inert(Global(module, function), (command,), state)
        assert opened.lowered == {}
    with pytest.raises(ArchiveError, match="expected a tuple"):
        read(RANGES, data)
    assert list(tmp_path.iterdir()) == []


# --- growing out of little


def doubled(times: int, seed: bytes = b"K\x01", opcode: bytes = b"\x86") -> bytes:
    """A value that holds the same value twice, which holds the same value twice, …"""
    return seed + b"".join(put(level) + get(level) + opcode for level in range(times))


LAUGHS = doubled(900)
AS_TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n("


@pytest.mark.parametrize(
    "value",
    [
        LAUGHS,
        doubled(900, b"]", b"\x86"),
        b"cm\nC\n" + LAUGHS + b"\x85R",
        LAUGHS + b")R",
        LAUGHS + b"Q",
        b"ctorch.jit\nXLoweredModule\n)\x81" + LAUGHS + b"b",
        b"ctorch.jit\nXLoweredModule\n)\x81" + LAUGHS + LAUGHS + b"\x86b",
        b"cm\nC\n)\x81}" + text(b"a") + LAUGHS + b"sb",
    ],
)
def test_a_billion_laughs_are_shared_values(value: bytes) -> None:
    with peak_below(8 * MIB), archive_of(data=PROTO + value + STOP) as opened:
        assert opened.data is not None
        assert len(opened.lowered) <= 1
        assert opened.generations.get("data.pkl") is None or opened.lowered
        assert len(opened.top) < 20


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (AS_TENSOR + LAUGHS + b"K\x00))\x89tR", "a tuple of 2, 0, a tuple of 0"),
        (AS_TENSOR + b"(" + LAUGHS + b"NNNNtQK\x00))tR", "a tuple of 1, 0, a tuple of 0"),
        (AS_TENSOR + b"NK\x00" + LAUGHS + b")tR", "None, 0, a tuple of 2"),
        (b"}" + LAUGHS + b"Ns", "expected a dict key, found 'tuple'"),
    ],
)
def test_messages_do_not_unfold_shared_values(value: bytes, found: str) -> None:
    with peak_below(8 * MIB), archive_of(data=PROTO + value + STOP) as opened:
        with pytest.raises(ArchiveError, match=r"made\.pt: data\.pkl, byte \d+: ") as caught:
            _ = opened.data
        assert found in str(caught.value)


@pytest.mark.parametrize(
    "record", [RANGES, "callstack_debug_map.pkl", "mobile_debug_handles.pkl", "bytecode.pkl"]
)
def test_debug_records_are_no_place_for_laughs(record: str) -> None:
    with peak_below(4 * MIB), pytest.raises(ArchiveError, match="expected"):
        read(record, PROTO + LAUGHS + STOP)


@pytest.mark.parametrize("index", [0xFFFF_FFFF, 0x7FFF_FFFF, 1 << 24])
@pytest.mark.parametrize("before", [b"", b"q\x00", b"q\x05q\x00"])
def test_huge_memo_indices_cost_nothing(index: int, before: bytes) -> None:
    data = PROTO + b"N" + before + put(index) + get(index) + b"\x86" + STOP
    with peak_below(MIB):
        tree = tree_of(data, data)
        assert [tree.items(root) for root in tree.roots.tolist()] == [[1, 1], [7 + len(before) // 2] * 2]
    assert "no such entry" in refused(PROTO + b"N" + put(index) + get(index - 1) + b"\x86" + STOP).problem


@pytest.mark.parametrize(
    ("value", "at"),
    [
        (b"X\xff\xff\xff\xff", 2),
        (b"\x8d" + b"\xff" * 8, 2),
        (b"\x8d" + bytes(7) + b"\x80", 2),
        (b"\x8d" + bytes(7) + b"\x7f", 2),
        (b"(X\xf0\xff\xff\x7f" + b"x" * 300, 3),
        (b"\x8a\xff", 2),
        (b"G", 2),
        (b"J\x00", 2),
        (b"c" + b"x" * 10_000, 2),
        (b"cx\n" + b"x" * 10_000, 2),
    ],
)
@pytest.mark.parametrize("size", [0, 70_000])
def test_lengths_beyond_the_record_are_refused(value: bytes, at: int, size: int) -> None:
    filler = text(bytes(size)) + put(0) + b"h\x00" * (MIB // 8) if size else b""
    with peak_below(12 * MIB if size else MIB):
        error = refused(PROTO + b"(" + filler + value + STOP)
    assert error.problem.startswith(("the pickle ends", "name_bytes is limited"))
    assert at


@pytest.mark.parametrize("value", [b"cab", b"cab\ncd", b"c" + b"x" * 300, b"c" + b"x" * 20 + STOP])
def test_a_global_without_its_two_lines_is_refused(value: bytes) -> None:
    for before in (b"", b"(l", text(b"a" * 100)):
        place = f"byte {len(PROTO) + len(before)}"
        error = refused(PROTO + before + value)
        assert (error.problem, error.place) == ("expected two lines behind GLOBAL", place)


# --- deep and unfinished


@pytest.mark.parametrize(
    "nest",
    [
        b"N" + b"\x85" * DEEP,
        b"(" * DEEP + b"t" * DEEP,
        b"(" * DEEP + b"l" * DEEP,
        b"]" * MANY + b"a" * (MANY - 1),
        b"N" + b"Q" * MANY,
        b"}N" * MANY + b"N" + b"s" * MANY,
        b"cm\nC\n" * MANY + b")R" + b"\x85R" * (MANY - 1),
        b"cm\nC\n)\x81" * MANY + b"N" + b"b" * MANY,
    ],
)
def test_deep_nesting_is_read_and_then_refused_by_depth(nest: bytes) -> None:
    said = r"made\.pt: data\.pkl, byte \d+: depth is limited to 1,000"
    with archive_of(ROOMY, data=PROTO + nest + STOP) as opened, pytest.raises(LimitError, match=said):
        _ = opened.data
    with pytest.raises(ArchiveError, match="expected"):
        read(RANGES, PROTO + nest + STOP, ROOMY)


# --- cycles


def test_a_value_that_holds_itself_is_refused() -> None:
    for data in (
        b"]q\x00h\x00a",
        b"}q\x00" + text(b"k") + b"h\x00s",
        b"cm\nC\n)\x81q\x00h\x00b",
        b"]q\x00" + b"(h\x00h\x00t" + b"a",
        b"](K\x01eq\x00(h\x00e",
    ):
        with (
            archive_of(data=PROTO + data + STOP) as opened,
            pytest.raises(ArchiveError, match="holds itself"),
        ):
            _ = opened.data
