"""Strings as templates with numbers in their holes, and the columns they tell: no misfit is taken."""

from __future__ import annotations

import pytest

from archive import ArchiveError
from archive.companion.modelling import modelled, restored
from archive.companion.templates import Templates, cut, templated
from tests.support.strategies import column


def test_columns_without_rows_or_lines_are_modelled_too() -> None:
    assert modelled({}, templated([]), column([])) == {}
    assert restored({}, templated([]), column([])) == {}


def test_numbers_that_do_not_fit_the_holes_of_templates_are_refused() -> None:
    texts = [b"line ", b"line \1"]
    assert Templates(texts, column([0, 1]), column([])).holes.tolist() == [0, 0]
    assert Templates(texts, column([0, 1]), column([7])).filled() == [b"line ", b"line 7"]
    with pytest.raises(ArchiveError, match="expected 1 numbers for templates, found 2"):
        Templates(texts, column([0, 1]), column([7, 8])).filled()


def test_strings_are_cut_by_their_lengths_and_all_of_them() -> None:
    assert cut(b"onetwo", column([3, 0, 3])) == [b"one", b"", b"two"]
    for lengths in ([3, 2], [3, 4], []):
        with pytest.raises(
            ArchiveError, match=rf"expected strings of {sum(lengths)} bytes together, found 6"
        ):
            cut(b"onetwo", column(lengths))
