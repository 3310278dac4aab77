"""Logs of Windows: UTF-16 in, UTF-16 out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.reports import case, explained
from tests.support.strategies import patient

if TYPE_CHECKING:
    from tests.support.reports import Report

JIT, LITE = case("plain_free_functions.jit"), case("plain_unicode")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("report", [JIT, LITE], ids=["torchscript", "lite"])
def test_a_log_is_explained_in_its_own_encoding(encoding: str, mark: str, report: Report) -> None:
    path, *texts = report
    log, full = (f"{mark}es läuft\n{text.decode()}".replace("\n", "\r\n").encode(encoding) for text in texts)
    assert explained(log, path) == (full, 1, 0, [])


@patient
@given(
    st.binary(), st.lists(st.integers(0, 200)), st.sampled_from([b"\xff\xfe", b"\xfe\xff", b"a\0b\0", b""])
)
def test_all_else_passes_through(log: bytes, cuts: list[int], head: bytes) -> None:
    """Halves of characters too, and pieces of any size."""
    log = head + log
    edges = sorted({0, *(cut for cut in cuts if cut < len(log)), len(log)})
    assert explained([log[a:b] for a, b in pairwise(edges)], JIT.path).text == log
