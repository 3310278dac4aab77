"""Pickles that are none, or that nobody should have written: refused with record and place, soon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive import ArchiveError, LimitError, Limits
from archive.base import memory
from archive.base.strings import decoded
from archive.pickles import scan
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from archive.pickles.values import Global, Inert
from tests.support import slow_reader
from tests.support.cost import MIB, peak_below
from tests.support.plain import RANGES, archive_of, assert_same, read, refused, tree_of
from tests.support.sampling import examples, sampled
from tests.support.strategies import PROTO, STOP, get, integer, patient, program, put, text

if TYPE_CHECKING:
    from pathlib import Path

MANY = 100_000
PIECES = [
    *(bytes([opcode]) for opcode in b"(N)\x85\x86\x87t]lae}dsuR\x81bQ"),
    *(integer(7), text(b"."), b"cm\nC\n", put(0), put(1), get(0), get(1)),
]


# --- values that don't add up


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"(" * MANY, "100000 open MARKs at STOP"),
        (b"(" * MANY + b"N", "100000 open MARKs at STOP"),
        (b"N(" * MANY + b"t", "99999 open MARKs at STOP"),
        (b"N" * MANY, "more than one value on the stack at STOP"),
        (b"", "too few values"),
        (b"N" + b"t" * MANY, "no MARK"),
        (b"N" + b"a" * MANY, "too few values"),
        (b"]e", "no MARK"),
        (b"(e", "too few values"),
        (b"(u", "too few values"),
        (b"](K\x01at", "too few values"),
        (b"N(K\x01e", "expected a list to fill"),
        (b"NK\x01a", "expected a list to fill"),
        (b"]NNs", "expected a dict to fill"),
        (b"NNb", "expected an object to give a state"),
        (b"(q\x00t", "nothing on the stack to put"),
        (b"q\x00N", "nothing on the stack to put"),
        (b"h\x00", "no such entry"),
        (b"Nq\x01h\x00\x86", "no such entry"),
        (b"h\x00q\x00", "no such entry"),
    ],
)
def test_pickles_that_do_not_add_up(data: bytes, problem: str) -> None:
    assert problem in refused(PROTO + data + STOP).problem


@pytest.mark.parametrize("other", [PROTO + b"Nq\x00" + STOP, PROTO + b"(" + STOP, PROTO + b"NN" + STOP])
def test_a_record_has_no_part_in_its_neighbours(other: bytes) -> None:
    for data in (PROTO + b"h\x00" + STOP, PROTO + b"t" + STOP, PROTO + b"\x86" + STOP):
        with pytest.raises(ArchiveError):
            tree_of(other, data)


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ((b"N", b"((", b"ttt"), "record 1, byte 4: 2 open MARKs at STOP"),
        ((b"t", b"(("), "record 0, byte 2: no MARK for this opcode"),
        ((b"(", b"N", b"tt", b"(("), "record 0, byte 3: 1 open MARKs at STOP"),
        ((b"N", b"N(tt", b"((("), "record 1, byte 5: no MARK for this opcode"),
    ],
)
def test_of_records_whose_marks_do_not_match_the_first_is_named(
    records: tuple[bytes, ...], problem: str
) -> None:
    with pytest.raises(ArchiveError) as caught:
        tree_of(*(PROTO + record + STOP for record in records))
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"](NK\x01aNK\x01ae", "byte 7: expected a list to fill"),
        (b"(]NNs]NNst", "byte 6: expected a dict to fill"),
        (b"(NNbNNbt", "byte 5: expected an object to give a state"),
        (b"\x86\x86", "byte 2: too few values on the stack for this opcode"),
        (b"NNN", "byte 5: more than one value on the stack at STOP"),
        (b"(q\x00q\x01t", "byte 3: nothing on the stack to put into the memo"),
        (b"(h\x00h\x00t", "byte 3: the memo has no such entry"),
        (b"(h\x00Nq\x05h\x01t", "byte 3: the memo has no such entry"),
        (b"(Nq\x01q\x01h\x00h\x00t", "byte 8: the memo has no such entry"),
        (b"(N\x80\x02N\x80\x02t", "byte 4: a pickle starts with PROTO and has no other"),
        (b"(\x00\x01t", "byte 3: expected a pickle opcode that PyTorch knows, found 0x00"),
        (b"(N\x8a\x09" + bytes(8) + b"\x01t", "byte 4: expected an integer of 64 bits, found one of 9 bytes"),
        (b"(ca\nt", "byte 3: expected two lines after GLOBAL"),
        (b"(q\x00\x00t", "byte 3: nothing on the stack to put into the memo"),
        (b"(N\x80\x03\x00t", "byte 4: a pickle starts with PROTO and has no other"),
    ],
)
def test_of_several_faults_the_first_one_is_named_by_record_and_byte(data: bytes, problem: str) -> None:
    well = PROTO + b"]q\x00" + STOP + b"behind"
    with pytest.raises(ArchiveError) as caught:
        tree_of(well, PROTO + data + STOP, PROTO + data + STOP)
    assert str(caught.value) == f"record 1, {problem}"


@pytest.mark.parametrize(
    ("data", "what", "place"),
    [
        (b"(" + b"N" * 90 + b"t", "pickle opcodes", "byte 0"),
        (b"(NN" + text(b"") * 90 + b"t", "texts of pickles", "byte 5"),
        (b"(cm\nC\nq\x00" + b"h\x00)\x81Nb" * 90 + b"t", "states of objects", "byte 549"),
        (b"(N]" + b"Na" * 90 + b"t", "values of one container", "byte 4"),
    ],
)
def test_memory_that_is_not_allowed_is_named_with_what_asks_for_it(
    data: bytes, what: str, place: str
) -> None:
    pickle = PROTO + data + STOP
    needed = _peak(pickle)
    said = next(error for memory in range(needed - 1, 0, -64) if what in str(error := _over(pickle, memory)))
    assert (said.resource, said.record, said.place) == ("memory", "record 0", place)


def _peak(pickle: bytes) -> int:
    """The most memory that is asked for to read a pickle."""
    with memory.charged(Limits(memory=1 << 62).allowance(0)) as allowance:
        read_trees([Pickle("", memoryview(pickle))], [False])
    return allowance.peak


def _over(pickle: bytes, memory: int) -> LimitError:
    with pytest.raises(LimitError) as caught:
        tree_of(pickle, limits=Limits(memory=memory))
    return caught.value


def test_limits_are_named() -> None:
    error = refused(PROTO + b"(" + b"N" * 50 + b"t" + STOP, Limits(memory=600))
    assert isinstance(error, LimitError)
    assert (error.resource, error.limit) == ("memory", 600)


@settings(patient, max_examples=examples(300))
@given(st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join))
def test_any_instructions_are_taken_or_refused_as_by_the_stack_machine(body: bytes) -> None:
    compare_with_the_stack_machine(PROTO + body + STOP)


@settings(patient, max_examples=examples(150))
@given(st.integers(0, 1 << 40), st.integers(1, 60), st.data())
def test_a_change_is_taken_or_refused_as_by_the_stack_machine(
    seed: int, steps: int, data: st.DataObject
) -> None:
    made = program(seed, steps, (0, 1))
    at = data.draw(st.sampled_from([at for _, _, at in slow_reader.instructions(made)][1:]))
    compare_with_the_stack_machine(made[:at] + data.draw(st.sampled_from(PIECES)) + made[at:])


def compare_with_the_stack_machine(made: bytes) -> None:
    try:
        value = slow_reader.load(made)
    except slow_reader.RefusedError:
        refused(made)
    else:
        tree = tree_of(made)
        assert_same(tree, int(tree.roots[0]), value)


# --- other pickles


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5, 255])
def test_only_protocol_2_is_read(protocol: int) -> None:
    error = refused(b"\x80" + bytes([protocol]) + b"N.")
    assert f"expected pickle protocol 2, found {protocol}" in error.problem


@pytest.mark.parametrize(
    "code",
    [
        *(b"\x93", b"\x95" + bytes(8), b"\x94", b"\x8c\x01x", b"0", b"2", b"1", b"I1\n", b"L1L\n", b"F1\n"),
        *(
            b"V\n",
            b"S''\n",
            b"U\x00",
            b"T" + bytes(4),
            b"B" + bytes(4),
            b"C\x00",
            b"\x8e" + bytes(8),
            b"\x96",
        ),
        *(b"p0\n", b"g0\n", b"Px\n", b"im\nC\n", b"o", b"\x82\x00", b"\x8b" + bytes(4), b"\x8f", b"\x90"),
        *(b"\x91", b"\x92", b"\x97", b"\x98", b"\x00", b"\xff"),
    ],
)
def test_opcodes_that_pytorch_does_not_know_are_refused(code: bytes) -> None:
    error = refused(PROTO + b"N" + code + b"N." + b"." * 20)
    assert error.place == "byte 3"
    assert error.problem == f"expected a pickle opcode that PyTorch knows, found 0x{code[0]:02x}"


@pytest.mark.parametrize("data", [b"N.", b"X", b"\x80\x02N\x80\x02.", b"(\x80\x02N."])
def test_a_pickle_starts_with_its_protocol(data: bytes) -> None:
    assert "starts with PROTO" in refused(data).problem


@pytest.mark.parametrize(
    "data", [b"", PROTO, b"\x80", PROTO + b"N", PROTO + b"NNNN", PROTO + b"X", PROTO + b"X\x00"]
)
def test_a_pickle_has_a_stop(data: bytes) -> None:
    assert refused(data).place == f"byte {len(data)}"
    with pytest.raises(ArchiveError, match="record 1, byte"):
        tree_of(PROTO + b"N.", data)


@pytest.mark.parametrize(
    ("opcode", "size"),
    [(b"K", 1), (b"M", 2), (b"J", 4), (b"r", 4), (b"G", 8), (b"\x8a", 9), (b"X", 9), (b"\x8d", 9), (b"c", 9)],
)
def test_an_instruction_may_be_cut_off_behind_the_window_that_it_begins_in(
    opcode: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "WINDOW", 64)
    before = PROTO + b"(" + b"N" * 60 + opcode
    assert len(before) == scan.WINDOW
    for there in range(size):
        data = before + b"\x08" * there
        assert refused(data).place in {f"byte {len(data)}", "byte 63"}


def test_bytes_behind_stop_are_ignored() -> None:
    for behind in (b".", b"garbage", PROTO + b"N.", b"\xff" * 1000):
        assert read("mobile_debug_handles.pkl", PROTO + b"K\x05\x85" + STOP + behind) == (5, [])


@pytest.mark.parametrize(
    "value", [b"\x8a\x09" + bytes(8) + b"\x01", b"\x8a\x08" * 2 + b"\xff" * 6 + b"\x8a\xff" + b"\x01" * 255]
)
def test_integers_have_64_bits(value: bytes) -> None:
    error = refused(PROTO + b"(" + value + b"t" + STOP + b"." * 300)
    assert error.expected == "an integer of 64 bits"


def test_bytes_that_are_no_utf_8_are_kept_and_shown_escaped() -> None:
    with archive_of(data=PROTO + text(b"\xff\xc3\xa9\xed\xa0\x80") + STOP) as opened:
        assert opened.data == "\\xffé\\xed\\xa0\\x80"
    strings = tree_of(PROTO + text(b"\xffx") + STOP).strings
    assert (bytes(strings[0]), str(strings[0]), repr(strings[0])) == (b"\xffx", "\\xffx", "'\\\\xffx'")
    assert decoded(b"\xff") == "\\xff"


# --- Pickles that nobody should have written: each ends in a value or an error, soon, and runs nothing


DEEP = MIB // 16  # beyond 16 bits


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


BEYOND = [
    b"X\xff\xff\xff\xff",
    b"\x8d" + b"\xff" * 8,
    b"\x8d" + bytes(7) + b"\x80",
    b"\x8d" + bytes(7) + b"\x7f",
    b"(X\xf0\xff\xff\x7f" + b"x" * 300,
    b"\x8a\xff",
    b"G",
    b"J\x00",
    b"c" + b"x" * 10_000,
    b"cx\n" + b"x" * 10_000,
]


@pytest.mark.parametrize(
    ("value", "size"),
    [*((value, 0) for value in BEYOND), *((value, 70_000) for value in sampled(BEYOND, most=4))],
)
def test_lengths_beyond_the_record_are_refused(value: bytes, size: int) -> None:
    filler = text(bytes(size)) + put(0) + b"h\x00" * (MIB // 32) if size else b""
    with peak_below(4 * MIB if size else MIB):
        error = refused(PROTO + b"(" + filler + value + STOP)
    assert error.problem.startswith(("the pickle ends", "name_bytes is limited"))


@pytest.mark.parametrize("value", [b"cab", b"cab\ncd", b"c" + b"x" * 300, b"c" + b"x" * 20 + STOP])
def test_a_global_without_its_two_lines_is_refused(value: bytes) -> None:
    for before in (b"", b"(l", text(b"a" * 100)):
        place = f"byte {len(PROTO) + len(before)}"
        error = refused(PROTO + before + value)
        assert (error.problem, error.place) == ("expected two lines after GLOBAL", place)


# --- deep and unfinished


@pytest.mark.parametrize(
    "nest",
    [
        b"N" + b"\x85" * DEEP,
        b"(" * DEEP + b"t" * DEEP,
        b"(" * DEEP + b"l" * DEEP,
        b"]" * DEEP + b"a" * (DEEP - 1),
        b"N" + b"Q" * DEEP,
        b"}N" * DEEP + b"N" + b"s" * DEEP,
        b"cm\nC\n" * DEEP + b")R" + b"\x85R" * (DEEP - 1),
        b"cm\nC\n)\x81" * DEEP + b"N" + b"b" * DEEP,
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
