"""Strings in the bytes of numbers are found wherever they begin, and wherever blocks end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.privacy.pieces import stretches
from archive.privacy.pieces.layers import of_numbers, of_wide
from archive.privacy.redact.search import Search
from tests.support.sampling import examples

if TYPE_CHECKING:
    from archive.base.columns import Ints

BLOCK = 64
"""Bytes of a block in these tests, so that most strings are at a border of one."""
ASCII = re.compile(rb"[\t\n\r -~]{12,}")
WIDE = {width: re.compile(rb"(?:[\t\n\r -~]\0{%d}){5}" % (width - 1)) for width in (2, 4)}
TEXT = st.sampled_from((*"ab/~\t\n é\x7f\x0b\x08", "/home/ann"))
STRINGS = st.builds(
    lambda letters, codec: "".join(letters).encode(codec),
    st.lists(TEXT, max_size=30),
    st.sampled_from(("utf-8", "latin-1", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")),
)
SHORTEST = st.integers(10, 15).map(lambda count: b"x" * count)
NUMBERS = st.binary(max_size=9) | st.builds(
    bytes.__mul__, st.sampled_from((b"\0", b"\x80")), st.integers(1, 90)
)
DATA = st.lists(STRINGS | SHORTEST | NUMBERS, max_size=12).map(b"".join)


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> object:
    """Blocks that end everywhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "BLOCK", BLOCK)
        patch.setattr(stretches, "FEWEST_ASKED", stretches.WORD)
        patch.setattr(stretches, "NEAR", 8)
        yield


def every_ascii_word(data: bytes) -> Ints | None:
    """The words of ASCII, be they many; None of bytes that are too few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "RARE", 1)
        return stretches.ascii_words(data)


@settings(max_examples=examples(2_000))
@given(DATA)
def test_strings_of_ascii_are_those_that_a_pattern_finds(data: bytes) -> None:
    expected = [match[0] for match in ASCII.finditer(data)]
    for words in (None, every_ascii_word(data)):
        texts = of_numbers(data, words)
        assert dict(texts.counts) == {text: expected.count(text) for text in expected}
        for text in expected:
            assert texts.place(text, 0) == next(
                match.start() for match in ASCII.finditer(data) if match[0] == text
            )


@settings(max_examples=examples(2_000))
@given(DATA)
def test_stretches_hold_all_wide_letters(data: bytes) -> None:
    for words in (None, every_ascii_word(data)):
        within = stretches.of_wide_letters(data, words)
        for pattern in WIDE.values():
            at = 0
            while match := pattern.search(data, at):
                assert any(low <= match.start() and match.end() <= high for low, high in within)
                at = match.start() + 1


@settings(max_examples=examples(1_000))
@given(DATA, st.sets(st.sampled_from(("/home/ann", "ab/~ab/", "x" * 15, "é/" + "home/annab")), min_size=1))
def test_texts_are_found_by_words_of_ascii_as_by_all(data: bytes, texts: set[str]) -> None:
    search = Search(text.encode(codec) for text in texts for codec in ("utf-8", "utf-16-le"))
    everywhere = sorted(search.found(memoryview(data)))
    assert sorted(search.found(memoryview(data), every_ascii_word(data))) == everywhere


@settings(max_examples=examples(1_000))
@given(DATA)
def test_wide_strings_are_those_of_one_stretch(data: bytes) -> None:
    found = [dict(layer.counts) for layer in of_wide(data, int)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "FEWEST_ASKED", len(data) + 1)
        assert [dict(layer.counts) for layer in of_wide(data, int)] == found


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-32-le"])
def test_wide_strings_begin_with_their_first_letter(codec: str) -> None:
    text = "Dé Mühlenbach"
    layers = of_wide(b"\1\2" + text.encode(codec) + b"\1\2", int)
    assert text in {raw.decode() for layer in layers for raw in layer.counts}


def test_of_random_numbers_few_are_looked_at() -> None:
    data = np.random.default_rng(0).standard_normal(1 << 16, np.float32).tobytes()
    words = stretches.ascii_words(data)
    assert words is not None
    assert len(words) < len(data) // stretches.WORD // 10
    for stretches_of in (stretches.of_ascii, stretches.of_wide_letters):
        assert sum(high - low for low, high in stretches_of(data)) < len(data) // 50
