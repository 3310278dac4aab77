"""A failure whose message is another operator's is not explained: it is another model's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.failures.explainer import LogExplainer
from archive.failures.messages import (
    MAX_MESSAGE,
    MAX_STARTS,
    cannot_print,
    contradicted,
    families,
    known_message,
    prints,
)
from tests.support.halves import halves
from tests.support.reports import Outcome, case, cases, explained

if TYPE_CHECKING:
    from pathlib import Path

LINEAR = case("plain_stack")
MATMUL = "mat1 and mat2 shapes cannot be multiplied (1x5 and 4x4)"
CAT = (
    "Sizes of tensors must match except in dimension 1. "
    "Expected size 2 but got size 3 for tensor number 1 in the list."
)
VIEW = "shape '[-1, 3]' is invalid for input of size 8"


def said(message: str, prefix: str = "") -> Outcome:
    """Explain the report about a linear layer, with another message in it."""
    log = LINEAR.stripped.replace(MATMUL.encode(), message.encode())
    return explained(b"".join(prefix.encode() + line for line in log.splitlines(keepends=True)), LINEAR.path)


@pytest.mark.parametrize("prefix", ["", "11-21 04:05:11.123  1234  5678 E pytorch: ", "  "])
@pytest.mark.parametrize("start", ["", "RuntimeError: "])
def test_a_message_of_another_operator_is_not_explained(start: str, prefix: str) -> None:
    outcome = said(start + CAT, prefix)
    assert (outcome.explained, outcome.unknown) == (0, 1)
    (note,) = outcome.notes
    assert "aten::linear does not print 'Sizes of tensors must match" in note
    assert note.endswith("the failure is another model's")
    assert said(start + MATMUL, prefix)[1:] == (1, 0, [])


def test_an_instruction_that_runs_no_operator_prints_no_operators_message() -> None:
    with archive.open(LINEAR.path) as opened:
        entries = {handle: str(entry.op) for handle, entry in opened.handles.items()}
        loop = next(handle for handle, op in entries.items() if op == "prim::Loop")
        log = LINEAR.stripped.replace(b"{1445}", b"{%d}" % loop)
        outcome = explained(log, opened)
    assert (outcome.text, outcome.unknown) == (log, 1)
    assert "no operator runs there" in outcome.notes[0]


def test_what_the_interpreter_does_itself_prints_no_operators_message() -> None:
    assert cannot_print("prim::Param", VIEW)
    assert not cannot_print("prim::Param", "an assertion of the model's own")
    assert not cannot_print("prim::RaiseException", VIEW)


@pytest.mark.parametrize(
    "message", ["no such file", "assertion of the model's own", "wrapped: " + "x" * 3_000]
)
def test_what_is_nobodys_known_message_contradicts_nothing(message: str) -> None:
    assert said(message)[1:] == (1, 0, [])


def test_only_operators_that_were_measured_are_contradicted() -> None:
    assert cannot_print("aten::linear", CAT)
    assert cannot_print("aten::linear.out", CAT)
    assert cannot_print("prim::GetAttr", CAT)
    for operator in ("prim::RaiseException", "custom::linear", "aten::no_such", "", "aten::cat"):
        assert not cannot_print(operator, CAT)


def test_what_a_program_calls_an_operator_makes_no_difference() -> None:
    for name in families().measured:
        lite, program = f"aten::{name}", f"torch.ops.aten.{name}.default"
        for message in (CAT, MATMUL, VIEW, "index out of range in self"):
            assert cannot_print(lite, message) == cannot_print(program, message)
            assert cannot_print(lite, message) != prints(program, message)
    for target in ("torch.ops.own.cat.default", "torch.ops.higher_order.cond", "operator.add", "torch.cat"):
        assert contradicted(target, CAT) == ""
    assert contradicted("_operator.getitem", CAT)


def test_messages_stay_the_operators_that_print_them() -> None:
    for operator, message in (
        ("aten::linear", MATMUL),
        ("aten::matmul", MATMUL),
        ("aten::lstm", MATMUL),
        ("aten::stack", CAT),
        ("aten::view", VIEW),
        ("aten::reshape", VIEW),
        (
            "aten::add",
            "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1",
        ),
    ):
        assert known_message("RuntimeError: " + message) == message
        assert not cannot_print(operator, message)


def test_the_table_names_operators_that_were_measured() -> None:
    table = families()
    assert len(table.measured) > 500
    assert all(names and names <= table.measured for names in table.printed_by.values())


def test_what_is_explained_by_handles_alone_is_told() -> None:
    with archive.open(LINEAR.path) as opened:
        explainer = LogExplainer.of(opened)
        assert explainer.caveat == ""
        assert list(explainer.explain([LINEAR.stripped * 2]))
        assert explainer.caveat.startswith("nothing in the log names the model: 2 failures are explained")


def test_no_report_of_pytorch_is_contradicted() -> None:
    assert all(explained(one.stripped, one.path).explained == 1 for one in cases())


def test_a_message_is_looked_for_in_lines_that_are_not_too_long() -> None:
    assert known_message(MATMUL.rjust(MAX_MESSAGE)) == MATMUL
    assert known_message(MATMUL.rjust(MAX_MESSAGE + 1)) == ""


def test_a_message_is_looked_for_behind_few_prefixes_of_loggers() -> None:
    assert known_message("x: " * MAX_STARTS + MATMUL) == MATMUL
    assert known_message("x: " * (MAX_STARTS + 1) + MATMUL) == ""


@pytest.mark.parametrize("form", ["{%s}", "%s"])
def test_a_handle_that_names_the_archive_is_explained_whatever_the_message(form: str, tmp_path: Path) -> None:
    path = tmp_path / "model.ptdbg"
    path.write_bytes(halves(LINEAR.path).companion)
    with archive.open(path) as opened:
        unique = f"{opened.handle_form.prefix}00001445"
        told = "debug_handles:" * (form != "%s") + form % unique
        log = f"RuntimeError: {CAT}\nDebug info for handle(s): {told}, was not found.\n"
        explainer = LogExplainer.of(opened)
        text = b"".join(explainer.explain([log.encode()]))
        assert str(opened.symbolicate(1445)).encode() in text
    assert (explainer.explained, explainer.named, explainer.caveat) == (1, 1, "")
    (note,) = explainer.notes
    assert "aten::linear does not print 'Sizes of tensors must match" in note
    assert "the handle names this model, so the message may be of another failure" in note


@pytest.mark.parametrize("message", ["Unwrapping null optional", "fr", "nl", MATMUL])
@pytest.mark.parametrize("before", ["RuntimeError: ", "KeyError: ", ""])
def test_a_cause_has_the_message_that_stands_above_the_handles(message: str, before: str) -> None:
    """Whether the table knows it or not: failures of two messages have two causes."""
    handles = LINEAR.stripped.decode().partition(MATMUL)[2].strip()
    failures = [f"{before}{text}\n  \n  {handles}\n" for text in (message, "another message")]
    with archive.open(LINEAR.path) as opened:
        explainer = LogExplainer.of(opened)
        _ = b"".join(explainer.explain(["".join(failures).encode()]))
    assert [cause.message for cause in explainer.causes.top()] == [message, "another message"]
