"""Lines in which no failure begins pass together, and nothing that they say is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.failures.log.beginnings import NOTHING, Above
from archive.failures.log.cut_lines import CutLines
from archive.failures.log.documents import OPENING_MARKS, form_of
from archive.failures.log.marks import LISTED, MARKS, PRINTED
from archive.failures.log.quiet import (
    CUT,
    SIEVE,
    STREAM,
    has_failure,
    is_quiet,
    loud_places,
    may_be_cut,
)
from archive.failures.log.sieve import LEAST, SHORT, Sieve, has_short, lines_in, may_have, pair
from archive.failures.models.ids import KnownIds

PLAIN = [b"", b"x" * 70, b"Debug", b"executing", b"stdout", b"Input 3 has", b"[32, 32, 70, 105]", b"http_cpp"]
DOCKERS = [b'{"log":"%b","stream":"stderr","time":"2026"}' % text for text in (b"a\\n", b"a", b"a\\\\n")]
LINES = st.sampled_from([*PLAIN, *DOCKERS, b"2026-01-01T00:00:00Z stdout P x", *PRINTED])
BLOCK = [b"x" * 63] * (LEAST // 64)
"""Lines that together are long enough for a sieve."""
WORDS = [*PRINTED, *(word for mark in MARKS for word in mark.sought or mark.words), *LISTED, *CUT, STREAM]


@given(st.sampled_from(WORDS), st.binary(max_size=9), st.binary(max_size=9))
def test_a_sieve_finds_each_word_wherever_it_lies(word: bytes, before: bytes, after: bytes) -> None:
    assert SIEVE.found_in(before + word + after)


@given(st.text("abc", min_size=7, max_size=14).map(str.encode), st.text("abc").map(str.encode))
def test_a_sieve_finds_the_group_of_a_word(word: bytes, text: bytes) -> None:
    """Words of few letters have the same four bytes in many places."""
    sieve = Sieve([[b"abcabcab"], [word], [b"bbbbbbb", b"cccccccc"]])
    for group, words in enumerate([[b"abcabcab"], [word], [b"bbbbbbb", b"cccccccc"]]):
        for at in range(4):
            for one in words:
                assert sieve.found_in(text[at:] + one + text) >> group & 1


@given(st.text("cp_ ", max_size=12).map(str.encode))
def test_a_word_of_four_bytes_is_found_wherever_it_lies(text: bytes) -> None:
    assert len(b"cpp_") == SHORT
    assert (b"cpp_" in text) <= has_short(text, b"cpp_")


@given(st.text("ab=> \n", min_size=2, max_size=12).map(str.encode))
def test_pairs_rule_out_longer_words(text: bytes) -> None:
    assert (b"==>" in text) <= may_have(text, [pair(b"=="), pair(b"=>")])


def test_a_block_that_only_resembles_a_failure_is_passed_over() -> None:
    """Else many logs would be searched for each word again."""
    resembling = b"number of inputs expected, debug while executing, request failed at noon: type expected\n"
    assert SIEVE.found_in(resembling * 100) == 0


@settings(deadline=None)
@given(st.lists(LINES, max_size=9), st.sampled_from([0, 1, 3]))
def test_each_line_that_is_not_quiet_has_a_place(some: list[bytes], blocks: int) -> None:
    log = b"".join(line + b"\n" for line in [*some, *BLOCK * blocks, *some])
    found = {log.count(b"\n", 0, place) for place in loud_places(log)}
    expected = {at for at, line in enumerate(log.split(b"\n")) if has_failure(line) or may_be_cut(line)}
    assert found == expected
    assert is_quiet(log) == (not expected)
    assert has_failure(log) == any(map(has_failure, log.split(b"\n")))
    assert lines_in(log) == log.count(b"\n")


def test_the_file_of_following_lines_is_seen_in_long_blocks() -> None:
    for at in range(2):
        cut = CutLines()
        cut.pass_by(b"x" * at + b"\n" * LEAST + b"==> /var/log/a.log <==\n" + b"y\n" * LEAST)
        assert cut._file == b"/var/log/a.log"


# --- ids

IDS = [bytes(b"%032x" % (number * 0x123456789ABCDEF0123)) for number in range(1, 9)]


@given(st.lists(st.sampled_from([*IDS[:4], b"a", b"f" * 32, b"-", b"\n", b"0" * 5]), max_size=12))
def test_known_ids_are_found_in_long_blocks_as_in_short_ones(parts: list[bytes]) -> None:
    known, text = KnownIds([*IDS[:3], b"12", b"abcdef"]), b"".join(parts)
    short = known.places_in(text)
    for before in (b"-" * LEAST, b"ab12 " * LEAST):
        assert known.places_in(before + text) == [(len(before) + place, word) for place, word in short]


# --- lines above

OPENERS = st.sampled_from(
    [
        *(b'm = """', b'"""', b"m='''", b'a,"b', b'"', b"VALUES ('", b"it's"),
        *(b"<pre>", b"</pre>", b"a < b", b"<module>", b"x", b""),
    ]
)


@given(st.lists(st.lists(OPENERS, min_size=1, max_size=5), max_size=8), st.integers(1, 6))
def test_lines_above_are_the_same_alone_and_in_blocks(blocks: list[list[bytes]], most: int) -> None:
    """Whatever opens a text of several lines is found, however many lines were added at once, or passed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("archive.failures.log.beginnings.MOST_ABOVE", most)
        together, alone, lines = Above(), Above(), list[bytes]()
        for block in blocks:
            together.add(b"".join(line + b"\n" for line in block), len(block))
            for line in block:
                alone.add(line + b"\n")
                alone.form(NOTHING)
            lines += block
        assert [*together.nearest()] == [line + b"\n" for line in reversed(lines[-most:])]
        assert [*together.nearest()] == [*alone.nearest()]
        assert together.is_plain == alone.is_plain
        expected = form_of(lambda mark: _last(lines, mark), lambda _: None)
        for above in (together, alone):
            form = above.form(NOTHING)
            assert (form and form.write(b"<'\"")) == (expected and expected.write(b"<'\""))


def _last(lines: list[bytes], mark: bytes) -> bytes:
    return next(filter(OPENING_MARKS[mark], reversed(lines)), b"")
