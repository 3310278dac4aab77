"""Packed logs are inflated in bounded pieces; logs in UTF-16 are explained in UTF-16."""

from __future__ import annotations

import gzip
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archive import ArchiveError, LimitError
from archive.failures.log.recoding import PIECE, UTF_32, unpacked
from tests.support.reports import case, explained
from tests.support.strategies import patient

if TYPE_CHECKING:
    from tests.support.reports import Report

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


JIT, LITE = case("plain_free_functions.jit"), case("plain_unicode")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("report", [JIT, LITE], ids=["torchscript", "lite"])
def test_a_log_is_explained_in_its_own_encoding(encoding: str, mark: str, report: Report) -> None:
    path, *texts = report
    log, full = (f"{mark}es läuft\n{text.decode()}".replace("\n", "\r\n").encode(encoding) for text in texts)
    assert explained(log, path) == (full, 1, 0, [])


@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be"])
def test_a_log_in_utf_32_is_refused_and_not_called_one_without_failures(encoding: str) -> None:
    path, log, _ = LITE
    marked = f"\ufeff{log.decode()}".encode(encoding)
    for pieces in ([marked], [bytes([byte]) for byte in marked]):
        with pytest.raises(ArchiveError, match="log: it is in UTF-32"):
            explained(pieces, path)


@patient
@given(
    st.binary(), st.lists(st.integers(0, 200)), st.sampled_from([b"\xff\xfe", b"\xfe\xff", b"a\0b\0", b""])
)
def test_all_else_passes_through(log: bytes, cuts: list[int], head: bytes) -> None:
    """Halves of characters too, and pieces of any size."""
    log = head + log
    assume(not log.startswith(UTF_32))
    edges = sorted({0, *(cut for cut in cuts if cut < len(log)), len(log)})
    assert explained([log[a:b] for a, b in pairwise(edges)], JIT.path).text == log
