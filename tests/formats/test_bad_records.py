"""Debug records cut off, changed byte by byte, or made to mislead: a result, or an error with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive import ArchiveError, LimitError, Limits
from archive.debuginfo.model import RangeLayout
from tests.support.corpus import ORACLES, RELEASES, raw
from tests.support.cost import MIB, peak_below
from tests.support.plain import RANGES, archive_of, read
from tests.support.sampling import sampled
from tests.support.slow_reader import instructions
from tests.support.strategies import PROTO, STOP, get, integer, put, text

if TYPE_CHECKING:
    from pathlib import Path

LONG = 1 << 18
INTLIST = b"ctorch.jit._pickle\nbuild_intlist\n"
CALLSTACKS, HANDLES, PATHS = "callstack_debug_map.pkl", "mobile_debug_handles.pkl", "mobile_debug.pkl"
SAMPLES = [
    (RELEASES / "torch-1.2.0" / "consts.pt", "debug/consts_gate_inner.pkl"),
    (RELEASES / "torch-1.8.0" / "unicode.ptl", "code/__torch__/models.py.debug_pkl"),
    (RELEASES / "torch-1.11.0" / "unicode.ptl", "code/__torch__/models.py.debug_pkl"),
    (ORACLES / "lowered_shape.ptl", "delegated_backends.debug_pkl"),
    (RELEASES / "torch-1.9.0" / "unicode.ptl", CALLSTACKS),
    (ORACLES / "plain_unicode.ptl", CALLSTACKS),
    (RELEASES / "torch-1.9.0" / "unicode.ptl", HANDLES),
    (RELEASES / "torch-1.7.0" / "frozen.ptl", PATHS),
    (ORACLES / "plain_free_functions.pt", "data.pkl"),
    (RELEASES / "torch-1.7.0" / "unicode.ptl", "bytecode.pkl"),
]


def named(name: str) -> str:
    """The name under which ``read`` knows what a record is."""
    return RANGES if name.startswith("debug/") else name


def result_or_error(name: str, data: bytes) -> object:
    """What a record gives, None where it is refused; that names the record and a place in it."""
    try:
        return read(named(name), data)
    except ArchiveError as error:
        where = (error.record, error.place)
    assert where[0] == named(name)
    assert where[1]
    return None


@pytest.mark.parametrize(("path", "name"), SAMPLES)
def test_no_prefix_of_a_record_is_one(path: Path, name: str) -> None:
    data = raw(path, name)
    assert read(named(name), data) is not None
    assert [end for end in range(len(data)) if result_or_error(name, data[:end]) is not None] == []


@pytest.mark.parametrize(("path", "name"), SAMPLES)
def test_every_change_of_a_byte_gives_a_result_or_an_error(path: Path, name: str) -> None:
    data = raw(path, name)
    before = read(named(name), data)
    starts = [at for _, _, at in instructions(data)]
    changes = {(at, at * 37 % 256) for at in range(len(data))}
    for at in (0, starts[len(starts) // 2], starts[-4] + 1):
        changes |= {(at, value) for value in range(256)}
    for at, value in sampled(sorted(changes), most=500):
        changed = bytearray(data)
        changed[at] = value
        found = result_or_error(name, bytes(changed))
        assert changed != data or found == before


# --- string tables

NULL = INTLIST + b"(](etR" + b"K\x00K\x00\x87"


def string_table(source: bytes, *strings: bytes) -> bytes:
    """A record with one row."""
    table = b"(" + b"".join(map(text, strings)) + b"t"
    row = b"K\x00" + source + b"K\x00K\x00\x87" + b"K\x05\x87"
    return PROTO + text(b"FORMAT_WITH_STRING_TABLE") + table + b"(" + row + b"t\x87" + STOP


@pytest.mark.parametrize("index", [2, -1, 255, 1 << 40, -(1 << 63)])
@pytest.mark.parametrize("field", ["text", "filename"])
def test_an_index_outside_the_string_table_is_named(field: str, index: int) -> None:
    texts, filename = (index, 0) if field == "text" else (0, index)
    source = INTLIST + b"(](" + integer(texts) + b"etR" + integer(filename) + b"K\x00\x87"
    said = rf"row 0, field {field}: expected an index into a string table of 2, found {index}$"
    with archive_of(code=string_table(source, b"", b"x")) as opened, pytest.raises(ArchiveError, match=said):
        opened.ranges(RANGES)


def test_a_string_table_without_strings_has_no_filename() -> None:
    with pytest.raises(ArchiveError, match="field filename: expected an index into a string table of 0"):
        read(RANGES, string_table(NULL))
    assert read(RANGES, PROTO + text(b"FORMAT_WITH_STRING_TABLE") + b"))\x87" + STOP) == []


def test_a_text_of_one_piece_many_times_over_is_refused() -> None:
    pieces = INTLIST + b"(](" + b"K\x01" * 100_000 + b"etR" + b"K\x00K\x00\x87"
    data = string_table(pieces, b"", b"x" * 100_000)
    with peak_below(64 * MIB), pytest.raises(LimitError, match="row 0, field text: memory is limited"):
        read(RANGES, data)


def test_lists_that_many_sources_share_are_counted_each_time() -> None:
    first = INTLIST + b"(](" + b"K\x00" * 10_000 + b"etR" + put(0) + b"K\x00K\x00\x87"
    again = get(0) + b"K\x00K\x00\x87"
    rows = b"".join(b"K\x00" + source + b"K\x00K\x00\x87K\x00\x87" for source in [first, *[again] * 10_000])
    data = PROTO + text(b"FORMAT_WITH_STRING_TABLE") + text(b"") + b"\x85(" + rows + b"t\x87" + STOP
    with (
        peak_below(128 * MIB),
        pytest.raises(LimitError, match=r"memory is limited to [0-9,]+, found [0-9,]+ with items"),
    ):
        read(RANGES, data)


# --- ranges


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b"N", "row 0: expected a tuple of 3, found None"),
        (b")", "row 0: expected a tuple of 3, found a tuple of 0"),
        (b"K\x00K\x00\x86", "row 0, field range: expected a tuple of 3, found 0"),
        (b"K\x00NK\x00\x87", "row 0, field range: expected a tuple of 3, found None"),
        (b"NNN\x87", "row 0, field offset: expected an int, found None"),
        (b"\x88K\x00K\x01\x87", "row 0, field offset: expected an int, found a bool"),
        (
            b"K\x00NJ\xff\xff\xff\xffK\x00\x87K\x00\x87",
            "row 0, field range, field source: expected a tuple of 3",
        ),
        (b"K\x00(NNNNtK\x00K\x00\x87K\x00\x87", "field source: expected a tuple of 3, found a tuple of 4"),
        (b"K\x00NNN\x87K\x00K\x00\x87K\x00\x87", "field source, field text: expected a str, found None"),
        (
            b"K\x00)J\xff\xff\xff\xffK\x00\x87K\x00\x87",
            "field source: expected a tuple of 3, found a tuple of 0",
        ),
    ],
)
def test_messages_lead_to_the_field(row: bytes, said: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        read(RANGES, PROTO + row + b"\x85" + STOP)
    assert said in str(caught.value)


@pytest.mark.parametrize("field", ["start", "end"])
def test_ranges_begin_and_end_at_or_behind_byte_0(field: str) -> None:
    source = text(b"x") + b"NK\x01\x87"
    start, end = (b"J\xff\xff\xff\xff", b"K\x00") if field == "start" else (b"K\x00", b"J\xff\xff\xff\xff")
    data = PROTO + b"K\x00" + source + start + end + b"\x87K\x00\x87\x85" + STOP
    with pytest.raises(
        ArchiveError, match=f"field range, field {field}: expected an int from 0 to .*found -1"
    ):
        read(RANGES, data)


def test_ranges_may_lie_anywhere_behind_their_text() -> None:
    source = text(b"x\n") + text(b"m.py") + b"K\x01\x87"
    huge = integer((1 << 63) - 1)
    data = PROTO + huge + source + huge + huge + b"\x87" + huge + b"\x87\x85" + STOP
    with archive_of(code=data) as opened:
        (row,) = opened.ranges("code/m.py")
        assert (row.range.text, row.range.line, opened.locate("code/m.py", 0)) == (b"", 2, None)
        assert opened.range_table.layouts == (RangeLayout.INLINE,)


# --- call stacks


def frames(count: int) -> bytes:
    """A call stack so deep."""
    return b"(NK\x00" * count + b"N" + (text(b"f") + b"t") * count


def row(stack: bytes) -> bytes:
    return b"(K\x07K\x00" + text(b"op") + stack + b"t"


def test_call_stacks_are_as_deep_as_the_limit() -> None:
    limits = Limits(frames=50)
    found = read(CALLSTACKS, PROTO + row(frames(50)) + b"\x85" + STOP, limits)
    assert isinstance(found, list)
    assert [len(entry.stack) for entry in found] == [50]
    with pytest.raises(LimitError, match="frames is limited to 50, found 51"):
        read(CALLSTACKS, PROTO + row(frames(51)) + b"\x85" + STOP, limits)


def test_stacks_of_other_handles_count_as_frames() -> None:
    stack = b"(NK\x00N" + text(b"f") + b"t" + put(1)
    rows = [row(stack)] + [
        row(b"(NK\x00" + get(level) + text(b"f") + b"t" + put(level + 1)) for level in range(1, 60)
    ]
    data = PROTO + b"(" + b"".join(rows) + b"t" + STOP
    assert len(read(CALLSTACKS, data)) == 60  # type: ignore[arg-type]
    with pytest.raises(LimitError, match=r"callstack_debug_map\.pkl, byte \d+: frames is limited to 50"):
        read(CALLSTACKS, data, Limits(frames=50))


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        (b"K\x01", "row 1, field stack, frame 0: expected a tuple of 4, found 1"),
        (b"(NK\x00K\x01Nt", "row 1, field stack, frame 1: expected a tuple of 4, found 1"),
        (
            b"(NK\x00(NK\x00NNt" + text(b"f") + b"t",
            "row 1, field stack, frame 1, field function: expected a str",
        ),
        (b"(NJ\xfe\xff\xff\xffN" + text(b"f") + b"t", "frame 0, field tag: expected an int from -1 to"),
        (
            b"(NN\x86K\x00N" + text(b"f") + b"t",
            "frame 0, field module, field type: expected a str, found None",
        ),
    ],
)
def test_messages_lead_to_the_frame(stack: bytes, said: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        read(CALLSTACKS, PROTO + b"(" + row(b"N") + row(stack) + b"t" + STOP)
    assert said in str(caught.value)


def test_of_many_stacks_the_one_to_blame_is_found_at_once() -> None:
    chain = [
        row(b"(NK\x00" + (get(level) if level else b"N") + text(b"f") + b"t" + put(level + 1))
        for level in range(4000)
    ]
    bad = row(b"(NK\x00(NK\x00K\x09" + text(b"f") + b"t" + text(b"f") + b"t")
    data = PROTO + b"(" + b"".join(chain * 5) + bad + b"t" + STOP
    with pytest.raises(ArchiveError, match="row 20000, field stack, frame 2: expected a tuple of 4, found 9"):
        read(CALLSTACKS, data)


def test_tags_that_no_range_has_print_no_frame() -> None:
    data = PROTO + row(b"(NJ\xff\xff\xff\xffN" + text(b"f") + b"t") + b"\x85" + STOP
    with archive_of(callstack_debug_map=data, data=PROTO + b"N" + STOP) as opened:
        said = opened.symbolicate(7)
        assert [frame.range for frame in said.frames] == [None, None]
        assert str(said).endswith("Traceback of TorchScript (most recent call last):\n")


# --- methods


def test_lists_and_names_that_many_methods_share_cost_no_more_than_one() -> None:
    entry = text(b"function_debug_handles") + INTLIST + b"(](" + b"K\x00" * 10_000 + b"etR\x85\x86\x85"
    rows = b"(K\x05" + text(b"m" * LONG) + put(0) + entry + put(1) + b"\x86"
    data = PROTO + rows + (get(0) + get(1) + b"\x86") * 10_000 + b"t" + STOP
    with (
        peak_below(64 * MIB),
        pytest.raises(LimitError, match=r"memory is limited to [0-9,]+, found [0-9,]+ with items"),
    ):
        read(HANDLES, data)
    few = PROTO + rows + (get(0) + get(1) + b"\x86") * 40 + b"t" + STOP
    with peak_below(32 * MIB), archive_of(mobile_debug_handles=few) as opened:
        assert len(opened.methods) == 1


def test_paths_that_many_instructions_share_are_decoded_once() -> None:
    paths = b"(" + text(b"p" * LONG) + put(0) + get(0) * 5000 + b"t"
    data = PROTO + b"K\x04" + text(b"m") + text(b"module_debug_info") + paths + b"\x86\x85\x86\x86" + STOP
    with peak_below(16 * MIB), archive_of(mobile_debug=data) as opened:
        assert len(opened.module_paths["m"]) == 5001


def test_tables_that_many_methods_share_are_read_once() -> None:
    entries = (text(b"k" * LONG) + put(1) + b"N\x86" + put(2)) + get(2) * 5_000
    table = b"(" + entries + text(b"instructions") + b"(" + b"N" * 5_000 + b"t\x86t"
    data = (
        PROTO
        + b"("
        + text(b"m" * LONG)
        + put(0)
        + table
        + put(3)
        + b"\x86"
        + (get(0) + get(3) + b"\x86") * 5_000
    )
    with peak_below(64 * MIB), archive_of(bytecode=data + b"t" + STOP) as opened:
        assert opened.bytecode is not None
        assert list(opened.bytecode.instructions.values()) == [5_000]
