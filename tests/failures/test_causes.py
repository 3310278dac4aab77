"""Failures are counted by their causes: the most frequent first, with the lines of the first and last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import archive
from archive.failures.explainer import CauseGroup, Causes, LogExplainer
from archive.failures.failure import Answer, Cause
from tests.support.reports import case

if TYPE_CHECKING:
    import pytest

    from archive.failures.failure import Failure
    from tests.support.reports import Report

LITE = case("plain_stack")
JIT = case("plain_stack.jit")


def cause(line: int) -> Cause:
    return Cause("net.py", line, "forward", "no")


def counted(*failures: tuple[int, tuple[str, ...]]) -> Causes:
    """Failures, each by the line of its cause and its models, in a line of the log each."""
    causes = Causes()
    for number, (line, models) in enumerate(failures, 1):
        causes.add(Answer(cast("Failure", None), b"", cause=cause(line), models=models), number)
    return causes


def test_the_most_frequent_cause_comes_first_and_of_equals_the_earliest() -> None:
    causes = counted((3, ()), (2, ()), (1, ()), (2, ()), (2, ()), (1, ()))
    expected = [
        CauseGroup((), cause(2), 3, first=2, last=5),
        CauseGroup((), cause(1), 2, first=3, last=6),
        CauseGroup((), cause(3), 1, first=1, last=1),
    ]
    assert causes.top() == expected
    assert causes.top(2) == expected[:2]
    assert causes.top(0) == []
    assert counted((1, ()), (2, ())).top(1)[0].cause.line == 1


def test_failures_of_other_models_are_told_apart() -> None:
    assert [(one.models, one.count) for one in counted((1, ("a",)), (1, ("b",)), (1, ("b",))).top()] == [
        (("b",), 2),
        (("a",), 1),
    ]


def test_of_too_many_causes_the_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.failures.explainer.MOST_CAUSES", 2)
    causes = counted((1, ()), (2, ()), (3, ()), (4, ()), (2, ()))
    assert [(one.cause.line, one.count) for one in causes.top()] == [(2, 2), (1, 1)]
    assert causes.others == 2


def grouped(report: Report) -> tuple[LogExplainer, CauseGroup]:
    """The only group of a log with a failure twice, behind two other lines."""
    explainer = LogExplainer.of(archive.open(report.path))
    list(explainer.explain([b"a\nb\n" + report.stripped * 2]))
    (group,) = explainer.causes.top()
    return explainer, group


def test_a_cause_of_the_lite_interpreter_is_its_source_line_hierarchy_and_message() -> None:
    explainer, group = grouped(LITE)
    message = "mat1 and mat2 shapes cannot be multiplied (# and #)"
    hierarchy = (
        "top(Stack)::<unknown>.blocks(Sequential)::forward.0(Block)::forward"
        ".SELF(Block)::_inner.fc(Linear)::forward.aten::linear"
    )
    assert group == CauseGroup((), Cause("models/plain.py", 25, hierarchy, message), 2, first=5, last=8)
    assert explainer.caveat.startswith("nothing in the log names the model: 2 failures are explained ")


def test_a_cause_of_torchscript_is_its_source_line_and_function() -> None:
    explainer, group = grouped(JIT)
    lines = JIT.stripped.count(b"\n")
    assert group == CauseGroup((), Cause("models/plain.py", 25, "forward", ""), 2, first=4, last=4 + lines)
    assert explainer.caveat == ""


def test_one_failure_alone_is_told_in_the_singular() -> None:
    explainer = LogExplainer.of(archive.open(LITE.path))
    list(explainer.explain([LITE.stripped]))
    assert explainer.caveat.startswith("nothing in the log names the model: 1 failure is explained ")
