"""Patterns of users: strangers write the lines that they are sought in."""

from __future__ import annotations

from itertools import count

import pytest

from archive import ArchiveError
from archive.fleet.patterns import MAX_PATTERN, MOST_SLOW, Pattern
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
    monkeypatch.setattr("archive.fleet.patterns.MOST_SLOW", 0.1)
    with (
        loops_below(500),
        pytest.raises(ArchiveError, match=r"line 7: the pattern '.*' takes too long: .*name what stands"),
    ):
        Pattern(pattern).found_in(HOSTILE[pattern], 7)


def test_searches_that_are_each_slow_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=0.125)  # between two looks
    monkeypatch.setattr("archive.fleet.patterns.thread_time", lambda: next(clock))
    pattern, found = Pattern(r"(a|a)*$"), list[bytes | None]()
    with pytest.raises(ArchiveError, match=r"line 15: the pattern .* takes too long"):
        found.extend(pattern.found_in(b"a" * 10 + b"b", number) for number in range(10_000))
    assert len(found) == MOST_SLOW / 0.125 - 1


def test_a_long_pattern_is_refused() -> None:
    assert Pattern("a" * MAX_PATTERN).found_in(b"a", 1) is None
    with pytest.raises(ArchiveError, match="a pattern of 1,001 characters; at most 1,000 are allowed"):
        Pattern("a" * (MAX_PATTERN + 1))
