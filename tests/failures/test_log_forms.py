"""Each failure in a log is explained exactly, in whatever form its lines have, or told; all else stays."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.log_forms import FORMS, LogForm
from tests.support.reports import case, explained
from tests.support.sampling import sampled
from tests.support.strategies import patient

NAMES = ("plain_unicode.jit", "plain_free_functions.jit", "traced_stack.jit", "plain_stack.jit")
LITE = ("plain_unicode", "plain_stack", "lowered_shape")
REPORTS = {name: case(name) for name in (*NAMES, "lowered_shape.jit", *LITE)}
HIDING = {"url", "form", "journal bytes, one record"}
"""Forms in which no word is readable: what hides in two of them, one in the other, is not found."""
RECORDS = [name for name, form in FORMS.items() if form.is_record]
FOREIGN = case("plain_branches")
TAKEN = sampled(FORMS)
some_forms = pytest.mark.parametrize("form", [FORMS[name] for name in TAKEN], ids=TAKEN)


def lines(text: bytes) -> list[str]:
    return text.decode().removesuffix("\n").split("\n")


def stripped(texts: list[str]) -> list[str]:
    """Texts without blanks at their ends, which some forms do not keep, and empty ones at the end."""
    return "\n".join(one.rstrip() for one in texts).rstrip("\n").split("\n")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_failure_is_explained_in_the_form_of_its_log(form: LogForm) -> None:
    for name, report in REPORTS.items():
        text, *counts = explained(form.written(lines(report.stripped)), report.path)
        assert stripped(form.read(text)) == stripped(lines(report.full)), name
        assert counts == [1, 0, []], name


@some_forms
def test_another_models_failure_is_told_and_the_log_stays(form: LogForm) -> None:
    for report in REPORTS.values():
        log = form.written(lines(report.stripped))
        text, done, unknown, notes = explained(log, FOREIGN.path)
        assert (text, done, unknown, len(notes)) == (log, 0, 1, 1)


@some_forms
def test_a_log_that_is_explained_already_stays_as_it_is(form: LogForm) -> None:
    for report in REPORTS.values():
        log = form.written(lines(report.full))
        assert explained(log, report.path) == (log, 0, 0, [])


@patient
@given(st.lists(st.sampled_from(RECORDS), min_size=2, max_size=2, unique=True), st.sampled_from([*REPORTS]))
def test_forms_within_forms_are_explained_exactly_or_told(names: list[str], which: str) -> None:
    assume(sum(name in HIDING for name in names) <= 1)
    report = REPORTS[which]
    log = report.stripped
    for name in names:
        log = FORMS[name].written(lines(log))
    text, done, unknown, notes = explained(log, report.path)
    if unknown:
        assert (text, done, unknown, len(notes)) == (log, 0, 1, 1)
        return
    for name in reversed(names):
        text = "".join(f"{line}\n" for line in FORMS[name].read(text)).encode()
    assert stripped(lines(text)) == stripped(lines(report.full))
    assert done == 1
