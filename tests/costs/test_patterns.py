"""Each pattern takes time in proportion to the text, on long words of its own first classes, too."""

from __future__ import annotations

import re
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from archive.compare.digest.names import TOKENS
from tests.costs.patterns import FROM_THE_START, UsedPattern, motifs, patterns
from tests.support.cost import loop_time

if TYPE_CHECKING:
    from typing import Any

PATTERNS = patterns()
SIZE, TIMES = 4_000, 4
"""Letters of a text, and how many times as long the longer one is."""
MOST = 2.3**2
"""Times as long as the short text that the longer one may take: 2.3 for each time that it is doubled."""
QUICK = 0.3
"""Loops of CPU below which nothing is compared: what grows with the square takes ten times that."""


def seconds(used: UsedPattern, motif: str, size: int) -> float:
    """CPU that the library's ways to use a pattern take on a repeated text."""
    pattern: re.Pattern[Any] = used.pattern
    repeated: Any = motif if isinstance(pattern.pattern, str) else motif.encode("latin-1")
    text = repeated * (size // len(repeated) + 1)
    start = time.thread_time()
    for name in FROM_THE_START & used.methods:
        getattr(pattern, name)(text)
    if used.methods - FROM_THE_START:
        deque(pattern.finditer(text), maxlen=0)
    return time.thread_time() - start


def is_slow(used: UsedPattern, motif: str, quick: float) -> bool:
    """Whether a repeated motif takes more than its share, three times in a row."""
    return seconds(used, motif, SIZE) > quick and all(
        seconds(used, motif, TIMES * SIZE) > MOST * seconds(used, motif, SIZE) for _ in range(3)
    )


def slow(used: UsedPattern, quick: float) -> list[str]:
    """The first motif whose repetitions take more than their share."""
    return list(islice((motif for motif in motifs(used.pattern) if is_slow(used, motif, quick)), 1))


@pytest.fixture(scope="module")
def quick() -> float:
    return QUICK * loop_time()


def test_the_patterns_are_found() -> None:
    assert len(PATTERNS) > 300
    assert PATTERNS["archive.compare.digest.names.TOKENS"].pattern is TOKENS
    assert sum(len(motifs(used.pattern)) for used in PATTERNS.values()) > 10 * len(PATTERNS)


def test_each_pattern_takes_time_in_proportion_to_the_text(quick: float) -> None:
    assert {name: found for name, used in PATTERNS.items() if (found := slow(used, quick))} == {}


@pytest.mark.parametrize("pattern", [r"\w+\.", r"[^\n]*\n"])
def test_a_pattern_that_looks_at_letters_again_is_found(pattern: str, quick: float) -> None:
    assert slow(UsedPattern(re.compile(pattern), frozenset({"sub"})), quick)
