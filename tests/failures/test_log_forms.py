"""The law of logs: each failure is explained exactly, or told, in any form of lines; all else stays.

Of any models, twins among them; from archives, companions with fingerprints, or a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.store.store import Store
from tests.failures.log_forms import FORMS, LogForm
from tests.support.halves import split_companion
from tests.support.reports import case, explained
from tests.support.sampling import examples, sampled
from tests.support.strategies import patient
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from archive.failures.models.models import Models

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


def test_lines_with_quotes_that_are_not_doubled_are_no_cell() -> None:
    report = REPORTS["plain_unicode"]
    for above, below in ((b'"\n{"a": 1}\n', b'"\n'), (b'"\n', b'{"a": 1}\n"\n')):
        text, *counts = explained(above + report.stripped + below, report.path)
        assert text == above + report.full + below
        assert counts == [1, 0, []]


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
@example(["repr behind a prefix", "repr of bytes"], "plain_unicode")  # b"…" has single quotes in it
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


LAW_REPORTS = {name: case(name) for name in NAMES}
SOURCES = ("archives", "companions", "store")


def twin_of(name: str) -> bytes:
    """The archive with another number in one line that its failure shows, above or below the marked one."""
    report = LAW_REPORTS[name]
    lines = report.stripped.split(b"\n")
    marked = next(at for at, line in enumerate(lines) if line.endswith(b"<--- HERE"))
    line, record = lines[marked - 2], lines[marked - 4 : marked]
    heading = next(one for one in reversed(lines[:marked]) if one.startswith(b'  File "'))
    assert line in record
    file = heading.split(b'"')[1].decode()
    return tampered(report.path, {file: lambda code: code.replace(line + b"\n", line[:-1] + b"~\n")})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Models]:
    """The models of every source, with their twins and in the place of them."""
    found = {}
    for own in (False, True):
        for source in SOURCES:
            folder = tmp_path_factory.mktemp("models")
            files = {f"{name}.twin": twin_of(name) for name in NAMES}
            files |= {name: report.path.read_bytes() for name, report in LAW_REPORTS.items()} if own else {}
            if source == "store":
                with Store.open(folder / "store", create=True) as store:
                    for name, data in files.items():
                        store.add(data, name=f"{name}.pt")
                folder /= "store"
            else:
                for name, data in files.items():
                    kept = data if source == "archives" else split_companion(data, fingerprints=True)
                    (folder / f"{name}.pt").write_bytes(kept)
            found[source, own] = models_in([folder])
    return found


def lines_of(text: bytes) -> list[str]:
    return [line.rstrip() for line in text.decode().removesuffix("\n").split("\n")]


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), st.sampled_from(sorted(FORMS)), st.data())
@settings(max_examples=examples(240), deadline=None)
def test_each_failure_is_explained_exactly_or_told(
    models: dict[tuple[str, bool], Models], names: list[str], form_name: str, data: st.DataObject
) -> None:
    source, own = data.draw(st.sampled_from(SOURCES)), data.draw(st.booleans())
    form = FORMS[form_name]
    explainer = explainer_of(models[source, own])
    logs = [
        form.written(LAW_REPORTS[name].stripped.decode().removesuffix("\n").split("\n")) for name in names
    ]
    texts = [b"".join(explainer.explain([log])) for log in logs]
    if not own:  # the log contradicts every model
        assert texts == logs
        assert (explainer.explained, explainer.unknown) == (0, len(names))
        assert explainer.notes
        return
    assert (explainer.explained, explainer.unknown) == (len(names), 0)
    for text, name in zip(texts, names, strict=True):
        found = "\n".join(form.read(text)).rstrip()
        assert lines_of(found.encode()) == lines_of(LAW_REPORTS[name].full.rstrip())
