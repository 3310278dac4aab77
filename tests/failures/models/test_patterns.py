"""Patterns of users: strangers write the lines that they are sought in."""

from __future__ import annotations

from itertools import count
from unittest import mock

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from archive import ArchiveError
from archive.failures.models.naming import MAX_PATTERN, MAX_WRITTEN_OUT, MOST_SLOW, Pattern
from tests.support.cost import loops_below

HOSTILE = {
    r"(a|a)*$": b"a" * 16_000 + b"b",
    r"(\w+\s?)*$": b"a" * 16_000 + b"!",
    r".*a.*b.*c.*d": b"ab" * 8_000,
    r"(x+x+)+y": b"x" * 16_000,
}


def test_the_first_group_is_found_or_all_of_it() -> None:
    assert Pattern(r"running (\w+)").found_in(b"INFO running Ranker now", 1) == b"Ranker"
    assert Pattern(r"(?<=running )\w+").found_in(b"INFO running Ranker now", 1) == b"Ranker"
    assert Pattern(r"running (\w+)").found_in(b"INFO", 1) is None


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_search_ends_within_bounds_whatever_the_line(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_SLOW <= 2
    monkeypatch.setattr("archive.failures.models.naming.MOST_SLOW", 0.1)
    with (
        loops_below(500),
        pytest.raises(ArchiveError, match=r"line 7: the pattern '.*' takes too long: .*name what stands"),
    ):
        Pattern(pattern).found_in(HOSTILE[pattern], 7)


def test_searches_that_are_each_slow_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=0.125)  # between two looks
    monkeypatch.setattr("archive.failures.models.naming.thread_time", lambda: next(clock))
    pattern, found = Pattern(r"(a|a)*$"), list[bytes | None]()
    with pytest.raises(ArchiveError, match=r"line 15: the pattern .* takes too long"):
        found.extend(pattern.found_in(b"a" * 10 + b"b", number) for number in range(10_000))
    assert len(found) == MOST_SLOW / 0.125 - 1


def test_a_long_pattern_is_refused() -> None:
    assert Pattern("a" * MAX_PATTERN).found_in(b"a", 1) is None
    with pytest.raises(ArchiveError, match="a pattern of 1,001 characters; at most 1,000 are allowed"):
        Pattern("a" * (MAX_PATTERN + 1))


NESTED = st.recursive(
    st.tuples(st.sampled_from(["a", r"\w", "[(]", r"\)", ".*", "[^)]+", "(?#)a", "a|b"]), st.just(1)),
    lambda inner: (
        st.builds(
            lambda one, opening, count, closing: (f"{opening}{one[0]}{closing % count}", one[1] * count),
            inner,
            st.sampled_from(["(", "(?:", "(?=", "(?>", "(?<n>"]),
            st.integers(1, 999),
            st.sampled_from(["){%d}", "){0,%d}", "){%d,}+", "){%d}?", ")(?#){%d}"]),
        )
        | st.builds(lambda one, other: (one[0] + other[0], one[1] + other[1]), inner, inner)
    ),
    max_leaves=6,
)
"""Patterns with the number of their steps when counts are written out, or fewer."""


@given(NESTED)
def test_a_pattern_that_counts_make_too_large_is_never_compiled(
    made: tuple[str, int],
) -> None:
    pattern, steps = made
    with mock.patch("regex.compile", side_effect=regex.error("compiled", pattern)) as compiled:
        with pytest.raises(ArchiveError):
            Pattern(pattern)
        assert not compiled.called or steps <= MAX_WRITTEN_OUT


@pytest.mark.parametrize(
    "pattern",
    [
        "((((a{999}){999}){999}){999})",
        "a{99999999}",
        "(?:[ab]c){1,99999999}",
        "(?<=a{9999999})",
        r"\\(?R)?a",
        "(a)(?1){999}",
        "(?P<n>a)(?P >n)",
        "(?<n>a)(?&n)",
        "(?:ab){e<=30}",
        "(?:ab){1<=e<=3,2i+1d<9}",
        "(?i-x:a)(?V1x) a { 9 9 9 9 9 9 }",
    ],
)
def test_what_has_no_bound_is_never_compiled(pattern: str) -> None:
    with mock.patch("regex.compile") as compiled, pytest.raises(ArchiveError, match=r"the pattern .* is "):
        Pattern(pattern)
    assert not compiled.called


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", b"01234567-0123-4567-89ab-0123456789ab"),
        (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}[.,]\d{3,6}Z? \w{1,64}", b"2026-01-02T03:04:05,678 Ranker"),
        (r"id=\{(\w+)\}", b"id={7}"),
        (r"\(?RE\)?", b"(RE)"),
        (r"(?:\w{1,63}\.){1,10}\w+", b"a.b.c"),
    ],
)
def test_patterns_of_real_logs_are_taken(pattern: str, line: bytes) -> None:
    assert Pattern(pattern).found_in(line, 1) is not None
