"""The vocabulary is what PyTorch gives, small, and without names of people."""

from __future__ import annotations

import subprocess
import sys

import pytest

from archive.privacy.review.vocabulary import FILE, vocabulary
from tests.support.sampling import whole_suite

MOST_BYTES = 75_000


def test_it_is_small_and_says_what_it_was_made_from() -> None:
    assert FILE.stat().st_size <= MOST_BYTES
    assert vocabulary().name == "torch 2.13.0"


@pytest.mark.parametrize("word", ["weight", "linear_12", "forward", "___torch_mangle_3", "_0", "add_"])
def test_words_of_pytorch_are_known_with_numbers_too(word: str) -> None:
    assert vocabulary().has_name(word)


@pytest.mark.parametrize(
    "word", ["AcmeNet", "mark", "Mark_2", "shift_scaled_linear", "linear_12b", "osterhagn"]
)
def test_others_are_not_though_they_are_made_of_known_ones(word: str) -> None:
    assert not vocabulary().has_name(word)


@whole_suite
@pytest.mark.torch
def test_it_is_what_pytorch_gives() -> None:
    """In a process of its own: what PyTorch has depends on what was imported before."""
    words = [sys.executable, "-W", "ignore", "-m", "tools.vocabulary", "--check"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
