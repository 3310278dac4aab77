"""Small companions that ask for much: refused before it costs anything."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

import archive
from archive import ArchiveError, LimitError, Limits
from archive.base import memory
from archive.base.columns import table_of
from archive.base.limits import DEFAULT_LIMITS
from archive.companion.build import build_companion
from archive.companion.codecs import Codec, compressed, inflated
from archive.companion.layout import CompanionLayout
from archive.normalform.columns import BY_NAME
from tests.support.companion_questions import SMALL, asked
from tests.support.cost import affordable
from tests.support.halves import LAYOUTS, facts_of, parsed
from tests.support.hostile_companions import (
    body,
    deep,
    line,
    mapped_of,
    packed_of,
    repeated,
    replaced,
    rewritten,
    sections,
    solid,
)

TIGHT = Limits(memory=1 << 19)


# --- rows


@pytest.mark.parametrize("rows", [1 << 40, 1 << 62, 1 << 64, 1 << 200])
def test_more_rows_than_allowed_are_refused(rows: int) -> None:
    for name in ("row.offset", "string.template", "template.length", "number.value"):
        with affordable(), pytest.raises(ArchiveError) as caught:
            parsed(solid(body(line(name, rows))))
        assert caught.value.place
        assert isinstance(caught.value, LimitError) == (rows < 1 << 70)  # no number is so large


@pytest.mark.parametrize("rows", [1 << 26, 1 << 28, (1 << 30) - 1])
def test_a_few_bytes_do_not_stand_for_gigabytes_of_rows(rows: int) -> None:
    names = ("string.template", "template.length", "number.value")
    data = solid(body(line("row.offset", rows), *(line(name, 0) for name in names)))
    assert len(data) < 120
    assert_refused(data, "facts", "ranges", "records")


def assert_refused(data: bytes, *questions: str, limits: Limits = DEFAULT_LIMITS) -> None:
    """Some questions have no answer but an error, and no question is beyond what we can afford."""
    with affordable():
        answers = asked(data, limits)
    assert answers.broken == {}
    assert [name for name in questions if name not in answers.errors] == []


def test_more_rows_together_than_allowed_are_refused() -> None:
    lines = [line(name, 1 << 14) for name in sorted(BY_NAME)]
    with affordable(), pytest.raises(LimitError, match="is limited to"):
        parsed(solid(body(*lines)), TIGHT)


# --- bytes


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [1 << 28, 1 << 32, 1 << 40])
def test_a_size_that_no_stream_gives_costs_nothing(codec: Codec, size: int) -> None:
    for data in (b"", bytes(40), compressed(b"abc" * 100, 9)[1]):
        with affordable():
            tracemalloc.start()
            try:
                with pytest.raises(ArchiveError):
                    parsed(solid(data, size, codec))
                assert tracemalloc.get_traced_memory()[1] < 16 << 20
            finally:
                tracemalloc.stop()


def test_a_zstd_frame_asks_for_a_window_of_128_mib_at_most() -> None:
    def frame(exponent: int) -> memoryview:
        """Magic number, no flags, a window of 2 ** (10 + exponent) bytes, a last block of 3 raw bytes."""
        return memoryview(bytes.fromhex(f"28b52ffd 00 {exponent << 3:02x} 190000") + b"abc")

    assert bytes(inflated(Codec.ZSTD, frame(17), 3)) == b"abc"
    with pytest.raises(ArchiveError, match="damaged bytes"):
        inflated(Codec.ZSTD, frame(18), 3)


def test_a_stream_is_inflated_no_further_than_it_says() -> None:
    codec, stored = compressed(bytes(200 << 20), 1)
    assert len(stored) < 100_000
    with affordable():
        tracemalloc.start()
        try:
            with pytest.raises(ArchiveError):
                parsed(solid(stored, 1000, codec))
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_limits_are_for_all_sections_together(layout: CompanionLayout) -> None:
    facts = facts_of(SMALL)
    data = mapped_of(facts) if layout is CompanionLayout.MAPPED else packed_of(facts)
    size = sum(part.inflated for part, _ in sections(data))
    with pytest.raises(LimitError) as caught:
        archive.open(data, limits=Limits(memory=size // 2))
    assert caught.value.resource == "memory"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_sections_count_too(layout: CompanionLayout) -> None:
    data = mapped_of(facts_of(SMALL)) if layout is CompanionLayout.MAPPED else packed_of(facts_of(SMALL))
    for rows in (1 << 40, 1 << 62):
        assert_refused(rewritten(data, replaced(sections(data), 0, rows=rows)), "facts")


# --- strings


def test_a_template_is_not_repeated_beyond_the_limit() -> None:
    data = repeated(20_000, 20_000)
    assert len(data) < 2_000
    with affordable(), pytest.raises(LimitError):
        parsed(data, TIGHT)
    assert_refused(repeated(1 << 20, 1 << 16), "facts", "ranges", "records")


# --- texts


@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_texts_are_not_repeated_beyond_the_limit(layout: CompanionLayout) -> None:
    facts = deep(3_000)
    data = mapped_of(facts) if layout is CompanionLayout.MAPPED else packed_of(facts, compress=True)
    assert_refused(data, "ranges", "records", limits=TIGHT)


def test_a_few_bytes_do_not_stand_for_gigabytes_of_text() -> None:
    data = packed_of(deep(20_000), compress=True)
    assert len(data) < 5_000
    assert_refused(data, "ranges", "records")


def test_long_lines_are_not_repeated_beyond_the_limit() -> None:
    facts = deep(1_000)
    strings = [bytes(facts.strings.data(one)) for one in range(len(facts.strings))]
    strings[1] = b"x" * 100_000
    data = packed_of(replace(facts, form=replace(facts.form, strings=table_of(strings))), compress=True)
    assert_refused(data)
    assert_refused(data, "ranges", "records", limits=TIGHT)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_building_is_refused_where_copies_of_strings_or_raw_records_cost_too_much(
    layout: CompanionLayout,
) -> None:
    facts, most = facts_of(SMALL), 24 << 20

    def build(strings: int, raw: int) -> None:
        table = table_of([*facts.strings.copies(), b"x" * strings])
        form = replace(facts.form, strings=table)
        with memory.charged(Limits(memory=most).allowance(0)):
            build_companion(replace(facts, form=form, raw=bytes(raw)), layout)

    build(1 << 10, 1 << 10)
    for strings, raw in ((most // 4, 0), (0, most // 4), (most // 4, most // 4)):
        with pytest.raises(LimitError, match="with columns that are encoded"):
            build(strings, raw)
