"""Packed logs are inflated as they arrive, in bounded pieces and up to a bound."""

from __future__ import annotations

import gzip

import pytest

from archive import ArchiveError, LimitError
from archive.verbs.logs.unpacking import PIECE, unpacked

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


def test_a_log_that_is_cut_short_has_a_text_and_a_broken_one_is_told() -> None:
    assert TEXT.startswith(b"".join(unpacked([PACKED[: len(PACKED) // 2]])))
    with pytest.raises(ArchiveError, match=r"log: no gzip in its first 2[\d,]+ bytes"):
        list(unpacked([PACKED[:20] + bytes(2_000)]))


def test_a_log_inflates_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.verbs.logs.unpacking.INFLATED_A_BYTE", 0)
    monkeypatch.setattr("archive.verbs.logs.unpacking.MOST_INFLATED", len(TEXT))
    assert b"".join(unpacked([PACKED])) == TEXT
    monkeypatch.setattr("archive.verbs.logs.unpacking.MOST_INFLATED", len(TEXT) - 1)
    with pytest.raises(LimitError, match="output"):
        list(unpacked([PACKED]))
    monkeypatch.setattr("archive.verbs.logs.unpacking.INFLATED_A_BYTE", 1)
    assert b"".join(unpacked([PACKED])) == TEXT
