"""Patterns of users: strangers write the lines that they are sought in."""

from __future__ import annotations

from time import thread_time

import pytest

from archive import ArchiveError
from archive.fleet.patterns import MAX_PATTERN, MOST_SLOW, Pattern

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
    start = thread_time()
    with pytest.raises(ArchiveError, match=r"line 7: the pattern '.*' takes too long: .*name what stands"):
        Pattern(pattern).found_in(HOSTILE[pattern], 7)
    assert thread_time() - start < 2


def test_searches_that_are_each_slow_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.fleet.patterns.SLOW", 0)
    monkeypatch.setattr("archive.fleet.patterns.MOST_SLOW", 0.05)
    pattern, found = Pattern(r"(a|a)*$"), list[bytes | None]()
    with pytest.raises(ArchiveError, match="takes too long"):
        found.extend(pattern.found_in(b"a" * 10 + b"b", number) for number in range(10_000))
    assert len(found) > 2


def test_a_long_pattern_is_refused() -> None:
    assert Pattern("a" * MAX_PATTERN).found_in(b"a", 1) is None
    with pytest.raises(ArchiveError, match="a pattern of 1,001 characters; at most 1,000 are allowed"):
        Pattern("a" * (MAX_PATTERN + 1))
