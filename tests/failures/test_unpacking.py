"""Packed logs are inflated as they arrive, in bounded pieces and up to a bound."""

from __future__ import annotations

import gzip

import pytest

from archive import ArchiveError, LimitError
from archive.failures.log.recoding import PIECE, unpacked

TEXT = b"".join(b"line %d\n" % number for number in range(20_000))
PACKED = gzip.compress(TEXT)


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 500])
def test_pieces_of_any_size_and_pauses_between_them_give_the_text(cut: int) -> None:
    assert b"".join(unpacked([b"", PACKED[:cut], b"", PACKED[cut:], b""])) == TEXT
    assert b"".join(unpacked([b"", TEXT[:cut], b"", TEXT[cut:]])) == TEXT


def test_a_text_arrives_in_pieces_that_are_no_longer_than_one() -> None:
    assert max(map(len, unpacked([PACKED]))) <= PIECE


def test_files_that_were_joined_and_zeros_behind_them_are_one_text() -> None:
    assert b"".join(unpacked([PACKED + PACKED + bytes(512)])) == TEXT + TEXT


@pytest.mark.parametrize("cut", [3, 10, len(PACKED) // 2, len(PACKED) - 9, len(PACKED) - 1])
@pytest.mark.parametrize("before", [b"", PACKED])
def test_a_log_that_is_cut_short_gives_the_text_before_and_is_told(cut: int, before: bytes) -> None:
    texts: list[bytes] = []
    with pytest.raises(ArchiveError, match=r"log: its gzip is cut short after [\d,]+ bytes"):
        texts.extend(unpacked([before + PACKED[:cut]]))  # an error leaves what came before it
    assert (TEXT * bool(before)) in b"".join(texts)
    assert (TEXT * 2).startswith(b"".join(texts))


def test_a_broken_log_is_told() -> None:
    with pytest.raises(ArchiveError, match=r"log: no gzip in its first 2[\d,]+ bytes"):
        list(unpacked([PACKED[:20] + bytes(2_000)]))


def test_a_log_inflates_up_to_a_bound() -> None:
    assert b"".join(unpacked([PACKED], len(TEXT), 0)) == TEXT
    with pytest.raises(LimitError, match="output"):
        list(unpacked([PACKED], len(TEXT) - 1, 0))
    assert b"".join(unpacked([PACKED], len(TEXT) - 1, 1)) == TEXT
