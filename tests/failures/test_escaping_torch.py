"""The law of escapes, with real PyTorch's explanations of source that has what every form escapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.failures.document_forms import ALL_FORMS
from tests.failures.test_log_forms import lines, stripped
from tests.support.reports import explained

pytest.importorskip("torch", exc_type=ImportError)

from tests.failures import spiteful_models

if TYPE_CHECKING:
    from tests.failures.log_forms import LogForm
    from tests.support.reports import Report

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def spiteful(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Models whose lines have quotes of all kinds, tags, entities, backslashes and other characters."""
    return spiteful_models.reports(tmp_path_factory.mktemp("spiteful"))


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_an_explanation_is_escaped_as_what_holds_it(form: LogForm, spiteful: dict[str, Report]) -> None:
    for name, report in spiteful.items():
        log = form.written(lines(report.stripped))
        text, done, unknown, notes = explained(log, report.path)
        if text == log:
            assert (done, unknown, len(notes)) == (0, 1, 1), name
            assert "no way to write" in notes[0], name
        else:
            assert stripped(form.read(text)) == stripped(lines(report.full)), name


# --- Latin-1


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_an_explanation_is_in_the_encoding_of_the_lines_above(
    encoding: str, spiteful: dict[str, Report]
) -> None:
    report = spiteful["Latin.ptl"]
    above = "größer\nplain\n".encode(encoding)
    text, *counts = explained(above + report.stripped, report.path)
    assert text == above + report.full.decode().encode(encoding)
    assert counts == [1, 0, []]


def test_what_latin_1_has_no_characters_for_is_left_and_reported(spiteful: dict[str, Report]) -> None:
    report = spiteful["Spite.ptl"]
    log = "größer\n".encode("latin-1") + report.stripped
    text, done, unknown, notes = explained(log, report.path)
    assert (text, done, unknown, len(notes)) == (log, 0, 1, 1)
    assert "no way to write" in notes[0]


def test_a_log_of_utf_8_that_begins_within_a_character_is_none_of_latin_1(
    spiteful: dict[str, Report],
) -> None:
    report = spiteful["Latin.ptl"]
    log = b"\xbc\xbf\n" + report.stripped
    assert explained(log, report.path).text == b"\xbc\xbf\n" + report.full
