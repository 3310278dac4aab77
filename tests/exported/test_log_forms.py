"""Failures of exported programs in all forms of logs: explained as in plain lines, or left with a note."""

from __future__ import annotations

from functools import cache

import pytest

import archive
from archive.failures.explainer import LogExplainer
from tests.failures.document_forms import ALL_FORMS
from tests.failures.test_log_forms import lines, stripped
from tests.support.exported import EXPORTED
from tests.support.sampling import sampled

KINDS = ("module", "interpreter.stripped")
LEFT = {
    "module": {
        "csv rows",
        "csv rows, quoted as needed",
        "github annotation",
        "repr of a list",
        "html br lines",
    },
    "interpreter.stripped": {"html br lines"},
}
"""The forms in which such a failure is left, with a note."""
TAKEN = sampled(ALL_FORMS)


def explained(log: bytes, name: str) -> tuple[bytes, LogExplainer]:
    with archive.open(EXPORTED / f"{name}.pt2") as opened:
        explainer = LogExplainer.of(opened)
        return b"".join(explainer.explain([log])), explainer


def failing(kind: str) -> bytes:
    return (EXPORTED / f"shop.{kind}.txt").read_bytes()


@cache
def plainly(kind: str, model: str) -> tuple[list[str], int]:
    """The texts of the lines of an explained log in no form, and how many failures are left in it."""
    out, explainer = explained(failing(kind), model)
    return stripped(lines(out)), explainer.unknown


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", TAKEN)
def test_a_failure_is_explained_in_each_form_or_left_with_a_note(kind: str, form: str) -> None:
    log = ALL_FORMS[form].written(lines(failing(kind)))
    out, explainer = explained(log, "shop")
    assert explainer.explained + explainer.unknown == 1
    if form in LEFT[kind]:
        assert out == log
        assert len(explainer.notes) == 1
    else:
        assert (explainer.explained, explainer.notes) == (1, [])
        assert stripped(ALL_FORMS[form].read(out)) == plainly(kind, "shop")[0]


AROUND = """
While executing %{name} : {type}[num_users=1] = call_module[target={name}](args = (%x, 3), kwargs = {{}})
Original traceback:
None
Use tlparse to see full graph. (https://github.com/pytorch/tlparse?tab=readme-ov-file#tlparse-parse-structured)
"""
"""What the interpreter writes about a call of a module, below the node that failed in it."""


@pytest.mark.parametrize("form", [form for form in TAKEN if form not in LEFT["interpreter.stripped"]])
def test_the_calls_of_modules_around_a_failure_are_no_failures(form: str) -> None:
    around = AROUND.format(name="emb", type="") + AROUND.format(name="layers_0", type="Tensor ")
    failure = failing("interpreter.stripped").decode().removesuffix("\n") + "\n"
    log = ALL_FORMS[form].written(lines((failure + around).encode()))
    out, explainer = explained(log, "shop")
    assert (explainer.explained, explainer.unknown, explainer.notes) == (1, 0, [])
    expected = [*plainly("interpreter.stripped", "shop")[0], *around.split("\n")]
    assert stripped(ALL_FORMS[form].read(out)) == stripped(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", TAKEN)
def test_a_failure_of_another_model_is_noted_in_each_form(kind: str, form: str) -> None:
    log = ALL_FORMS[form].written(lines(failing(kind)))
    out, explainer = explained(log, "choice")
    assert out == log
    assert (explainer.unknown, len(explainer.notes)) == (plainly(kind, "choice")[1], 1) == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [form for form in TAKEN if form not in LEFT["module"]])
def test_an_explained_log_stays_as_it_is_in_each_form(kind: str, form: str) -> None:
    log, _ = explained(ALL_FORMS[form].written(lines(failing(kind))), "shop")
    again, explainer = explained(log, "shop")
    assert (again, explainer.explained, explainer.unknown) == (log, 0, 0)
