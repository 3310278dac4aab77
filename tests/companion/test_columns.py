"""What makes columns and strings small, each on its own: transforms, trees of lines, templates, codecs."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from archive import ArchiveError, LimitError
from archive.base import memory
from archive.base.columns import firsts, keyed, numbered, ordinals, spread
from archive.base.limits import Limits
from archive.companion import choosing, codecs
from archive.companion.build import build_companion
from archive.companion.choosing import chosen, weight
from archive.companion.codecs import (
    DICTIONARIES,
    SMALL,
    STRONGEST,
    Codec,
    compressed,
    dictionary,
    inflated,
    quotes_sources,
    zstd,
)
from archive.companion.encodings import EncodedColumn, Transform, decoded, encoded_by, encodings
from archive.companion.layout import OLDEST, VERSION, read_directory
from archive.companion.modelling import MODELLED, modelled, restored
from archive.companion.packed import stored
from archive.companion.parse import parse_companion
from archive.companion.templates import Templates, cut, templated
from archive.normalform.columns import COLUMNS, STRINGS
from archive.normalform.texts import line_bounds, pack_texts, unpack_texts
from tests.support.halves import facts_of
from tests.support.sampling import examples
from tests.support.strategies import EDGES, Made, archives, column, patient, texts, whole
from tests.support.tampering import LOWERED, NESTED_1_2, STACK

if TYPE_CHECKING:
    from pathlib import Path

    from archive.companion.contents import Contents
    from archive.normalform.columns import Columns

    Coding = tuple[Transform, bool, int]


LEAST, MOST = -(1 << 63), (1 << 63) - 1
quick = settings(patient, max_examples=examples(100))


def wrapped(value: int) -> int:
    return (value - LEAST) % (1 << 64) + LEAST


counting = st.tuples(whole, st.lists(st.integers(0, 5), min_size=1, max_size=20)).map(
    lambda drawn: [wrapped(drawn[0] + step) for step in drawn[1]]
)
"""Few values close to one another, anywhere: what every transform can hold."""
values = st.one_of(
    st.lists(whole, min_size=1, max_size=20), st.lists(st.sampled_from(EDGES), min_size=1), counting
)


# --- transforms


@quick
@given(values)
@example([LEAST, LEAST + 1, LEAST])
@example([MOST, LEAST, MOST])
@example([0, MOST, LEAST])
def test_every_transform_gives_the_values_again(column_values: list[int]) -> None:
    seen = []
    for encoded in encodings(column(column_values)):
        assert decoded(encoded, len(column_values)).tolist() == column_values
        seen.append(encoded.transform)
    assert len(set(seen)) == len(seen)
    assert (seen == [Transform.SAME]) == (len(set(column_values)) == 1)


def transforms(*column_values: int) -> dict[Transform, EncodedColumn]:
    return {encoded.transform: encoded for encoded in encodings(column(column_values))}


@pytest.mark.parametrize(
    ("transform", "column_values", "start", "data"),
    [
        (Transform.FLAT, [1, 0, 3], 0, [1, 0, 3]),
        (Transform.FLAT, [0, -1, 1, -2], 0, [0, 1, 2, 3]),
        (Transform.FLAT, [1, 0x203], 0, [1, 3, 0, 2]),
        (Transform.DELTA, [7, 9, 9, 10], 7, [0, 2, 0, 1]),
        (Transform.INDEX, [5, 6, 9, 9], 5, [0, 0, 2, 1]),
        (Transform.PEAK, [4, 5, 6, 6, 4, 7], 4, [0, 0, 0, 1, 3, 0]),
        (Transform.BACK, [4, 5, 4, 6, 6, 5], 4, [0, 0, 2, 0, 1, 4]),
        (Transform.SAME, [-3, -3, -3], -3, []),
    ],
)
def test_each_transform_is_as_its_specification_says(
    transform: Transform, column_values: list[int], start: int, data: list[int]
) -> None:
    encoded = transforms(*column_values)[transform]
    assert (encoded.start, list(encoded.data)) == (start, data)


def test_references_back_need_new_values_that_count_up() -> None:
    assert Transform.BACK not in transforms(4, 6, 4)
    assert Transform.BACK not in {one.transform for one in encodings(column([4, 5, 4]), whole=False)}


@pytest.mark.parametrize(
    ("transform", "column_values"),
    [(Transform.PEAK, [0, 1 << 61]), (Transform.PEAK, [-1 << 61, 0]), (Transform.BACK, [4, 6, 4])],
)
def test_a_column_never_gets_another_transform_than_the_one_asked_for(
    transform: Transform, column_values: list[int]
) -> None:
    with pytest.raises(AssertionError, match=transform.name):
        encoded_by(transform, column(column_values))


@quick
@given(st.lists(st.one_of(values, st.just([])), max_size=6))
@example([[4, 4], [LEAST, MOST, LEAST], [], [4, 6, 4], [4, 5, 4], [7]])
def test_short_columns_get_the_encoding_of_least_weight(columns: list[list[int]]) -> None:
    named: Columns = {each.name: column(drawn) for each, drawn in zip(COLUMNS, columns, strict=False)}
    best = chosen(named)
    assert best.keys() == named.keys()
    for name, column_values in named.items():
        assert decoded(best[name], len(column_values)).tolist() == column_values.tolist()
        if len(column_values):
            assert weight(best[name]) == min(map(weight, encodings(column_values)))


def test_few_different_bytes_and_zeros_weigh_least() -> None:
    def of(data: bytes, transform: Transform = Transform.FLAT) -> int:
        return weight(EncodedColumn(transform, zigzag=False, width=1, start=0, data=data))

    assert of(b"\0\0\0") < of(b"\0\0\0", Transform.DELTA) < of(b"\1\1\1") < of(b"\1\2\3")


def test_long_columns_get_the_encoding_that_compresses_best() -> None:
    rows = choosing.LONG + 1
    named: Columns = {
        "range.start": np.arange(rows) % 7,
        "range.end": np.arange(rows) ** 2,
        "range.tag": np.ones(rows, np.int64),
    }
    best = chosen(named)
    for name, column_values in named.items():
        assert decoded(best[name], rows).tolist() == column_values.tolist()
        sizes = [len(zstd(encoded.data, choosing.QUICK)) for encoded in encodings(column_values)]
        assert len(zstd(best[name].data, choosing.QUICK)) == min(sizes)
    with pytest.raises(LimitError), memory.charged(Limits(memory=1000).allowance(0)):
        chosen(named)


@quick
@given(
    start=st.one_of(whole, st.integers()),
    count=st.integers(0, 6),
    data=st.binary(max_size=48),
    coding=st.tuples(st.sampled_from(Transform), st.booleans(), st.integers(0, 15)),
)
def test_any_residuals_are_values_or_one_error(
    *, start: int, count: int, data: bytes, coding: Coding
) -> None:
    transform, zigzag, width = coding
    encoded = EncodedColumn(transform, zigzag, width, start, data[: width * count])
    with suppress(ArchiveError):
        result = decoded(encoded, count)
        assert (str(result.dtype), len(result)) == ("int64", count)


@pytest.mark.parametrize("back", [[1], [0, 2], [0, -1], [0, 0, 3]])
def test_references_to_rows_that_are_not_before_are_refused(back: list[int]) -> None:
    residuals = column(back)
    coded = np.where(residuals < 0, -2 * residuals - 1, 2 * residuals).astype(np.uint8)
    with pytest.raises(ArchiveError, match="expected references to rows before"):
        decoded(EncodedColumn(Transform.BACK, True, 1, 0, coded.tobytes()), len(back))  # noqa: FBT003


# --- trees of lines


@quick
@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=10))
@example([[number % 3, number % 5, 0][: number % 4] for number in range(50)])
def test_texts_are_harvested_as_they_were_planted(lines: list[list[int]]) -> None:
    first = firsts(column(map(len, lines)))
    flat = column(line for text in lines for line in text)
    node, parent, line = pack_texts(first, flat)
    again = line_bounds(node, parent)
    assert again.tolist() == first.tolist()
    assert unpack_texts(again, node, parent, line).tolist() == flat.tolist()
    pairs = list(zip(parent.tolist(), line.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)  # what texts end alike in is there once
    assert all(before < number for number, (before, _) in enumerate(pairs))
    assert {tuple(text[at:]) for text in lines for at in range(len(text))} == set(paths(pairs))


def paths(pairs: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The lines of each node."""
    found: list[tuple[int, ...]] = []
    for parent, line in pairs:
        found.append((line, *(found[parent] if parent >= 0 else ())))
    return found


def test_texts_that_share_no_line_are_planted_at_once() -> None:
    lines = np.arange(100_000)
    node, parent, line = pack_texts(column([0, 60_000, 100_000]), lines)
    assert len(parent) == 100_000
    first = line_bounds(node, parent)
    assert first.tolist() == [0, 60_000, 100_000]
    assert np.array_equal(unpack_texts(first, node, parent, line), lines)


def test_lines_far_from_the_end_of_texts_are_not_shared() -> None:
    lines = column([7, 6, 5, 4, 3] * 2)
    with mock.patch("archive.normalform.texts.DEEPEST_SHARED", 3):
        node, parent, line = pack_texts(column([0, 5, 10]), lines)
    assert line.tolist() == [3, 4, 5, 6, 7, 6, 7]
    assert parent.tolist() == [-1, 0, 1, 2, 3, 2, 5]
    assert unpack_texts(line_bounds(node, parent), node, parent, line).tolist() == lines.tolist()


# --- templates

WORDS = [
    *(b"___torch_mangle_", b"0", b"1", b"12", b"(", b"): ", b"forward", b"\n", b"/a.py", b"\0", b"\1"),
    *(b"9" * 18, b"9" * 19, b"/src/x.py(12): g", b"007"),
]
strings = st.one_of(st.lists(st.sampled_from(WORDS), max_size=6).map(b"".join), texts)


@quick
@given(st.lists(strings, max_size=8))
def test_templates_are_filled_to_the_strings_of_before(listed: list[bytes]) -> None:
    assert templated(listed).filled() == listed


def test_strings_that_differ_in_numbers_share_a_template() -> None:
    names = [b"__torch__.___torch_mangle_%d.A" % number for number in (7, 0, 123)]
    frames = [b"/src/a.py(%d): f%d" % (number, number % 2) for number in (1, 2, 3)]
    made = templated([*names, *frames])
    assert list(made.texts) == [
        b"__torch__.___torch_mangle_\1.A",
        b"/src/a.py(\1): f1",
        b"/src/a.py(\1): f0",
    ]
    assert (made.which.tolist(), made.numbers.tolist()) == ([0, 0, 0, 1, 2, 1], [7, 0, 123, 1, 3, 2])


@pytest.mark.parametrize(
    "text", [b"(007): f", b"___torch_mangle_01", b"(1)", b"f(12) : ", b"(%s): f" % (b"1" * 19), b"(-1): f"]
)
def test_other_numbers_stay_in_the_string(text: bytes) -> None:
    made = templated([text])
    assert (list(made.texts), made.numbers.tolist()) == ([text], [])


# --- modelling


def model_of(facts: Contents) -> list[dict[str, list[int]]]:
    """The columns that are modelled: before, as they are kept, and after."""
    templates = templated([bytes(facts.strings.data(string)) for string in range(len(facts.strings))])
    kept = modelled(facts.columns, templates, facts.strings.length)
    again = restored(kept, templates, facts.strings.length)
    assert facts.columns.keys() == kept.keys() == again.keys()
    return [
        {name: one[name].tolist() for name in one if name in MODELLED} for one in (facts.columns, kept, again)
    ]


@settings(patient, max_examples=examples(30))
@given(archives())
def test_modelled_columns_are_restored(made: Made) -> None:
    before, _, after = model_of(facts_of(made.data))
    assert after == before


def test_what_other_columns_tell_is_kept_as_nothing() -> None:
    before, kept, after = model_of(facts_of(STACK.with_name("traced_stack.pt")))
    assert after == before
    assert Counter(kept["source.filename"])[0] > 0.5 * len(kept["source.filename"])
    assert Counter(kept["range.end"])[0] > 0.5 * len(kept["range.end"])
    assert len(kept["row.column"]) < len(before["row.column"])
    assert max(kept["row.offset"]) < max(before["row.offset"])


@pytest.mark.parametrize("path", [STACK, LOWERED, NESTED_1_2])
def test_columns_of_real_archives_are_restored(path: Path) -> None:
    before, _, after = model_of(facts_of(path))
    assert after == before


# --- codecs


@pytest.mark.parametrize("words", [*map(dictionary, DICTIONARIES)])
def test_a_dictionary_with_an_index_gives_the_bytes_that_zstd_gives_without(
    words: zstandard.ZstdCompressionDict,
) -> None:
    """Of any length up to that from which on there is none."""
    data = b"".join(b"%d: x = self.norm(x)\n" % number for number in range(4_000))[: SMALL + 1]
    for size in (0, 1, 9, 100, 1_000, 5_000, 1 << 14, 1 << 15, SMALL, SMALL + 1):
        parameters = zstandard.ZstdCompressionParameters.from_level(
            STRONGEST,
            source_size=size,
            dict_size=len(words),
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            write_content_size=False,
            write_checksum=False,
            write_dict_id=False,
        )
        plain = zstandard.ZstdCompressor(compression_params=parameters, dict_data=words)
        assert codecs._trained(data[:size], STRONGEST, words) == plain.compress(data[:size]), size


@quick
@given(
    st.one_of(st.binary(max_size=300), st.builds(bytes, st.integers(0, 5000))),
    st.sampled_from([1, 9, 19, 22]),
)
def test_sections_inflate_to_what_was_compressed(data: bytes, level: int) -> None:
    codec, stored = compressed(data, level)
    assert len(stored) <= len(data)
    assert bytes(inflated(codec, memoryview(stored), len(data))) == data
    for size in {len(data) - 1, len(data) + 1} - {-1}:
        with pytest.raises(ArchiveError):
            inflated(codec, memoryview(stored), size)


def test_the_codec_that_gives_least_is_taken() -> None:
    noise = np.random.default_rng(7).bytes(200)
    assert compressed(b"", 9)[0] is Codec.NONE
    assert compressed(noise, 9)[0] is Codec.NONE
    found = {compressed(data, 9)[0] for data in (b"abc" * 100, bytes(3000), noise + noise, b"ab" * 9)}
    assert Codec.NONE not in found
    stored = zstd(b"abc" * 100, 9)
    assert bytes(inflated(Codec.ZSTD, memoryview(stored), 300)) == b"abc" * 100


def test_the_slow_codec_is_tried_on_little_or_at_the_strongest_levels() -> None:
    numbers = np.arange(1 << 20, dtype="<u4").tobytes()
    assert compressed(numbers[: 1 << 17], 1)[0] is Codec.LZMA
    assert compressed(numbers + b"x", 1)[0] is Codec.ZSTD


@quick
@given(st.sampled_from([*Codec, 3, 1 << 40]), st.binary(max_size=60), st.integers(0, 1 << 24))
def test_any_bytes_inflate_or_end_in_one_error(codec: int, data: bytes, size: int) -> None:
    with suppress(ArchiveError):
        assert len(inflated(codec, memoryview(data), size)) == size


# --- numbers

rows = st.lists(st.tuples(whole, whole, st.integers(0, 2)), max_size=12)


@quick
@given(rows)
def test_equal_rows_are_numbered_by_first_appearance(drawn: list[tuple[int, int, int]]) -> None:
    columns = [column(row[field] for row in drawn) for field in range(3)]
    number, at = numbered(*columns)
    seen: dict[tuple[int, int, int], int] = {}
    assert number.tolist() == [seen.setdefault(row, len(seen)) for row in drawn]
    assert [drawn[place] for place in at.tolist()] == list(seen)
    before: Counter[tuple[int, int, int]] = Counter()
    for row, ordinal in zip(drawn, ordinals(*columns).tolist(), strict=True):
        assert ordinal == before[row]
        before[row] += 1
    key = keyed(*columns).tolist()
    assert [key.index(one) for one in key] == [drawn.index(row) for row in drawn]


@quick
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), max_size=9))
def test_sequences_are_spread_one_behind_the_other(drawn: list[tuple[int, int]]) -> None:
    first, counts = column(one for one, _ in drawn), column(count for _, count in drawn)
    expected = [one + step for one, count in drawn for step in range(count)]
    assert spread(first, counts).tolist() == expected
    assert firsts(counts).tolist() == [sum(counts[:at].tolist()) for at in range(len(drawn) + 1)]


# --- Strings as templates with numbers in their holes, and the columns they tell: no misfit is taken


def test_columns_without_rows_or_lines_are_modelled_too() -> None:
    assert modelled({}, templated([]), column([])) == {}
    assert restored({}, templated([]), column([])) == {}


def test_numbers_that_do_not_fit_the_holes_of_templates_are_refused() -> None:
    texts = [b"line ", b"line \1"]
    assert Templates(texts, column([0, 1]), column([])).holes.tolist() == [0, 0]
    assert Templates(texts, column([0, 1]), column([7])).filled() == [b"line ", b"line 7"]
    with pytest.raises(ArchiveError, match="expected 1 numbers for templates, found 2"):
        Templates(texts, column([0, 1]), column([7, 8])).filled()


def test_strings_are_cut_by_their_lengths_and_all_of_them() -> None:
    assert cut(b"onetwo", column([3, 0, 3])) == [b"one", b"", b"two"]
    for lengths in ([3, 2], [3, 4], []):
        with pytest.raises(
            ArchiveError, match=rf"expected strings of {sum(lengths)} bytes together, found 6"
        ):
            cut(b"onetwo", column(lengths))


def test_texts_that_quote_torch_nn_are_kept_as_places_in_its_source() -> None:
    facts = facts_of(STACK)
    _, texts = stored(facts)
    assert b"return F.linear(input, self.weight, self.bias)" in texts
    assert quotes_sources(texts)
    assert not quotes_sources(b"\0".join(b"%d: y = warped(%d * x)\n" % (one, one) for one in range(900)))
    data = memoryview(build_companion(facts))
    directory = read_directory(data)
    assert (directory.version, directory.sections[STRINGS].codec) == (VERSION, Codec.SOURCES)
    assert 4 * directory.sections[STRINGS].stored < 3 * len(compressed(texts, STRONGEST, Codec.TEXTS)[1])
    assert parse_companion(data).strings.copies() == facts.strings.copies()


def test_a_companion_that_needs_no_newer_version_has_an_older_one() -> None:
    data = memoryview(build_companion(facts_of(NESTED_1_2)))
    assert read_directory(data).version == OLDEST
