"""What `torch.jit.wait` throws anew is one failure with what the forked function threw, by whose cause."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from tests.failures.log_forms import FORMS, LogForm
from tests.failures.test_log_forms import lines, stripped
from tests.support.reports import Report, case

if TYPE_CHECKING:
    from archive.failures.explainer import LogExplainer

OWN, OTHER = case("plain_free_functions.jit"), case("plain_stack.jit")
FORM_NAMES = ("plain", "framed docker", "framed journal", "json in json", "repr", "python log", "panel")


def message(text: bytes) -> bytes:
    """The exception's line at the end of a traceback."""
    return text.removesuffix(b"\n").rpartition(b"\n")[2]


def thrown(outer: bytes, *inner: bytes) -> bytes:
    """The text of an exception whose message is another one's text, and so on."""
    for text in inner:
        outer = outer.removesuffix(message(outer) + b"\n") + b"RuntimeError: " + text
    return outer


def explained(log: bytes, *reports: Report, names: str | None = None) -> tuple[bytes, LogExplainer]:
    explainer = explainer_of(models_in([report.path for report in reports]), names=names)
    return b"".join(explainer.explain([log])), explainer


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("form", [FORMS[name] for name in FORM_NAMES], ids=FORM_NAMES)
def test_a_thrown_failure_counts_once_and_all_parts_are_explained(form: LogForm, depth: int) -> None:
    log = form.written(lines(thrown(*[OWN.stripped] * (depth + 1))))
    text, explainer = explained(log, OWN, OTHER)
    assert stripped(form.read(text)) == stripped(lines(thrown(*[OWN.full] * (depth + 1))))
    assert (explainer.explained, explainer.unknown, explainer.notes) == (1, 0, [])
    (group,) = explainer.causes.top()
    assert (group.count, group.message) == (1, message(OWN.stripped).decode().partition(": ")[2])
    assert explainer.caveat.startswith("nothing in the log names the model: 1 failure is")


def test_the_inner_part_has_the_time_and_the_name_above_the_outer_one() -> None:
    log = b"2026-03-01 10:00:00 model plain_free_functions\n" + thrown(OWN.stripped, OWN.stripped)
    _, explainer = explained(log, OWN, OTHER, names=r"model (\w+)")
    assert (explainer.explained, explainer.named, explainer.caveat) == (1, 1, "")
    (group,) = explainer.causes.top()
    assert group.first_time is not None
    assert group.first_time.text == "2026-03-01 10:00:00"


def test_the_inner_part_is_of_the_model_of_the_outer_one() -> None:
    log = thrown(OWN.stripped, OTHER.stripped)
    text, explainer = explained(log, OWN, OTHER)
    assert OTHER.full not in text
    assert (explainer.explained, explainer.unknown) == (0, 1)


def test_failures_after_one_another_are_two() -> None:
    text, explainer = explained(OWN.stripped + OTHER.stripped, OWN, OTHER)
    assert text == OWN.full + OTHER.full
    assert (explainer.explained, len(explainer.causes.top())) == (2, 2)
    torn = thrown(OWN.stripped, b"The following operation failed in the TorchScript interpreter.\n")
    text, explainer = explained(torn + b"going on\n", OWN)
    assert explainer.explained == 1


def test_two_strings_of_one_line_are_two_failures() -> None:
    log = json.dumps([thrown(OWN.stripped, OWN.stripped).decode(), OWN.stripped.decode()]).encode() + b"\n"
    text, explainer = explained(log, OWN)
    assert json.loads(text) == [thrown(OWN.full, OWN.full).decode(), OWN.full.decode()]
    assert (explainer.explained, explainer.unknown) == (2, 0)
