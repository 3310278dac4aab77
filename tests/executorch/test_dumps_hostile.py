"""ETDumps that are cut or lie: one error with its place, within time and memory."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
from hypothesis import given

from archive import ArchiveError, FileKind, Limits, profile_etdump, recognise
from archive.base import memory
from archive.base.errors import LimitError
from archive.base.limits import DEFAULT_LIMITS
from archive.describe.runtime.blocks import inspect_etdump
from archive.formats.etdump import DumpBlock, parse_etdump
from archive.formats.schema.flatbuffer_columns import FlatBuffer
from tests.support.cost import loops_below
from tests.support.etdumps import BLOCKS, DUMPS, Block, Event, Plain, as_read, built, dump, plain, read

REGION = dump("region").read_bytes()
CUT = ("expected b'ED00'", "the file is cut short")
"""Why a dump is refused that is cut in its head, or behind it."""


def parsed(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[DumpBlock, ...]:
    with memory.charged(limits.allowance(len(data))):
        return parse_etdump(memoryview(data))


def read_or_none(data: bytes) -> list[Plain] | None:
    """The blocks; None where they are refused, by an error in one line."""
    try:
        return plain(parsed(data))
    except ArchiveError as error:
        if not str(error).isprintable():
            raise
        return None


@pytest.mark.parametrize("name", DUMPS)
def test_a_reader_that_follows_one_offset_after_the_other_reads_the_same(name: str) -> None:
    data = dump(name).read_bytes()
    assert plain(parsed(data)) == as_read(read(data))
    without_size = data[4:]
    assert plain(parsed(without_size)) == plain(parsed(data))
    assert recognise(data).kind is recognise(without_size).kind is FileKind.ETDUMP


@given(blocks=BLOCKS)
def test_what_is_written_is_read(blocks: list[Block]) -> None:
    data = built(blocks)
    assert plain(parsed(data)) == as_read(blocks) == as_read(read(data))


def test_a_dump_cut_anywhere_is_refused() -> None:
    for length in range(len(REGION)):
        with pytest.raises(
            ArchiveError, match=r"the file is cut short" if length > 11 else "expected b'ED00'"
        ):
            parsed(REGION[:length])


def test_a_dump_without_its_size_cut_anywhere_is_refused_or_loses_what_nobody_reads() -> None:
    whole, refused = plain(parsed(REGION)), 0
    for length in range(4, len(REGION), 3):
        blocks = read_or_none(REGION[4:length])
        refused += blocks is None
        assert blocks in (None, whole)
    assert refused > 300


def test_bytes_behind_the_buffer_are_not_read() -> None:
    assert plain(parsed(REGION + b"\xff" * 100)) == plain(parsed(REGION))


def test_every_number_may_be_the_largest() -> None:
    for at in range(8, len(REGION) - 3, 6):
        for lie in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0"):
            data = REGION[:at] + lie + REGION[at + 4 :]
            blocks = read_or_none(data)
            assert blocks is None or blocks == as_read(read(data))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (built([], identifier=b"ET12"), "byte 4: expected b'ED00'"),
        (built([], version=1), "ETDump.version: expected 0, found 1"),
        (built([])[:4] + struct.pack("<I", 1 << 20) + built([])[8:], "expected ETDump within"),
        (b"\xff\xff\xff\xff" + built([])[4:], "the file is cut short: expected 4,294,967,299 bytes"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(data: bytes, why: str) -> None:
    with pytest.raises(ArchiveError) as refused:
        inspect_etdump(data)
    assert why in str(refused.value) or "found no known kind" in str(refused.value) + why


def test_blocks_that_share_their_events_cost_no_more_than_they_have_bytes_for() -> None:
    call = Event("OPERATOR_CALL", 0, 0, 1, 2)
    assert [len(block.events) for block in parsed(built([Block([call] * 3)] * 2))] == [3, 3]
    data = built([Block([call] * 2_000)] * 2_000)
    why = r"RunData\.events within 16,\d+ bytes, found 4,000,000"
    with loops_below(20), pytest.raises(ArchiveError, match=why):
        parsed(data)


def test_names_that_share_their_bytes_are_refused_before_they_are_read() -> None:
    data = memoryview(struct.pack("<I4s", 8, b"ED00") + struct.pack("<I", 100) * 1_000)
    buffer = FlatBuffer(data, b"ED00")
    numbers, texts = buffer.texts(np.array([8, 112, 8, 0]), "names")
    assert (numbers.tolist(), len(texts)) == ([0, 0, 0, -1], 1)
    with pytest.raises(ArchiveError, match="names share bytes"):
        buffer.texts(np.arange(8, 3_000, 4), "names")


def test_long_names_and_memory_are_bounded() -> None:
    long = built([Block([Event("n" * 5000, 0, 0, 1, 2)])])
    with pytest.raises(
        LimitError, match=r"name_bytes is limited to 4,096, found 5,000 with ProfileEvent\.name"
    ):
        profile_etdump(long)
    with pytest.raises(LimitError, match="memory is limited to 100,000"):
        profile_etdump(dump("shop"), limits=Limits(memory=100_000))


ONE_EVENT = built([Block([Event("OPERATOR_CALL", 0, 0, 1, 2)])])
VTABLE = struct.pack("<3H", 6, 8, 4)
"""Of an event: its own size, that of the table, and the place of the table's only field."""


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ((6, 8, 0), "expected an event of one kind"),
        ((6, 8, 6), "expected Event.profile_event in its table"),
        ((6, 8, 3), "expected Event.profile_event in its table"),
        ((6, 7, 4), "expected Event.profile_event in its table"),
        ((6, 3, 4), "expected Event within "),
        ((6, 60_000, 4), "expected Event within "),
        ((3, 8, 4), "expected the vtable of Event within "),
        ((60_000, 8, 4), "expected the vtable of Event within "),
    ],
)
def test_a_vtable_that_lies_is_refused_with_its_place(other: tuple[int, int, int], why: str) -> None:
    with pytest.raises(ArchiveError) as refused:
        parsed(ONE_EVENT.replace(VTABLE, struct.pack("<3H", *other)))
    assert re.fullmatch(r"byte \d+: " + re.escape(why) + r"(?:[\d,]+ bytes)?", str(refused.value))


def test_what_a_table_and_the_buffer_just_hold_is_read() -> None:
    longest = "n" * DEFAULT_LIMITS.name_bytes
    (block,) = parsed(built([Block([Event(longest, 0, 0, 1, 2)])]))
    assert block.events[0].name == longest
    of_file = ONE_EVENT + built([])  # behind the buffer, whose end its size tells
    assert plain(parsed(of_file)) == plain(parsed(ONE_EVENT))
