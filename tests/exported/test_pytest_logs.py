"""Failures of exported programs as pytest prints them: short frames, long ones, and both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

import archive
from archive.failures.explainer import OTHER_NOTE, UNREAD_NOTE, LogExplainer
from tests.exported.test_logs import FAILING, text
from tests.support.exported import EXPORTED
from tests.support.reports import case

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADING = re.compile(r'  File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>\w+)')
SEPARATOR = "_ " * 40
STYLES = ("short", "long", "auto")


class Frame(NamedTuple):
    """A frame of a Python traceback, with the lines of its statement."""

    file: str
    line: str
    function: str
    shown: list[str]

    def short(self) -> list[str]:
        return [f"{self.file}:{self.line}: in {self.function}", *self.shown]

    def long(self, said: Sequence[str] = ()) -> list[str]:
        statement, *carets = self.shown
        source = [f"    def {self.function}(self, *args):", f">       {statement.strip()}"]
        source += [f"    {line}" for line in carets] + [f"E       {line}" for line in said]
        error = said[0].partition(":")[0] if said else ""
        place = f"{self.file}:{self.line}: {error}"
        return ["", "self = GraphModule(", "  (goods): Module()", ")", "", *source, "", place]


def frames_of(log: str) -> tuple[list[Frame], list[str]]:
    """The frames of a traceback, and the lines of its message."""
    frames: list[Frame] = [Frame("test_job.py", "4", "test_far", ["    p(x)"])]
    said: list[str] = []
    for line in log.splitlines()[1:]:
        if heading := HEADING.fullmatch(line):
            frames.append(Frame(heading["file"], heading["line"], heading["function"], []))
        elif line.startswith("    ") and not said:
            frames[-1].shown.append(line)
        else:
            said.append(line)
    return frames, said


def in_pytest(log: str, style: str) -> str:
    """A traceback as pytest prints it, with what stands around it."""
    frames, said = frames_of(log)
    lines = ["=" * 30 + " FAILURES " + "=" * 30, "_" * 30 + " test_far " + "_" * 30]
    is_long = [
        style == "long" or (style == "auto" and at in (0, len(frames) - 1)) for at in range(len(frames))
    ]
    for at, (frame, long) in enumerate(zip(frames, is_long, strict=True)):
        is_last = at == len(frames) - 1
        lines += frame.long(said if is_last else ()) if long else frame.short()
        if not is_last and (long or is_long[at + 1]):
            lines.append(SEPARATOR)
    lines += [] if is_long[-1] else [f"E   {line}" for line in said]
    lines += ["=" * 30 + " short test summary info " + "=" * 30, f"FAILED test_job.py::test_far - {said[0]}"]
    return "\n".join(lines) + "\n"


def explained(log: str, name: str) -> tuple[str, LogExplainer]:
    with archive.open(EXPORTED / f"{name}.pt2") as opened:
        explainer = LogExplainer.of(opened)
        return b"".join(explainer.explain([log.encode()])).decode(), explainer


def added(before: str, after: str) -> list[str]:
    """The lines of a text that another has not, which has all others in the same order."""
    left, new = iter(before.splitlines()), []
    expected = next(left, None)
    for line in after.splitlines():
        if line == expected:
            expected = next(left, None)
        else:
            new.append(line)
    assert expected is None
    return new


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", FAILING)
def test_it_is_explained_as_the_python_traceback_is(name: str, style: str) -> None:
    log = text(name, "module").decode()
    native, by_native = explained(log, name)
    shown = in_pytest(log, style)
    out, explainer = explained(shown, name)
    marked = "E   " if style == "short" else "E       "
    assert [line.removeprefix(marked) for line in added(shown, out)] == added(log, native)
    assert (explainer.explained, explainer.unknown, explainer.notes) == (1, 0, by_native.notes)
    assert [group.cause for group in explainer.causes.top()] == [
        group.cause for group in by_native.causes.top()
    ]
    assert out.index(f"{marked}Original traceback:") < out.index(f"{marked}{frames_of(log)[1][0]}")
    again, explainer = explained(out, name)
    assert (again, explainer.explained, explainer.unknown) == (out, 0, 0)


SHORT = """\
\x1b[31m\x1b[1m_________________________________ test_picked __________________________________\x1b[0m
\x1b[1m\x1b[31mtest_job.py\x1b[0m:6: in test_picked
    \x1b[0mmodule(torch.ones(\x1b[94m4\x1b[39;49;00m), torch.tensor(\x1b[94m6\x1b[39;49;00m))\x1b[90m\x1b[39;49;00m
        module     = GraphModule()
\x1b[1m\x1b[31m<eval_with_key>.5\x1b[0m:23: in forward
    \x1b[0mselect = torch.ops.aten.select.int(x, \x1b[94m0\x1b[39;49;00m, item);  x = item = \x1b[94mNone\x1b[39;49;00m\x1b[90m\x1b[39;49;00m
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\x1b[90m\x1b[39;49;00m
        _assert_scalar_default = None
        x          = tensor([1., 1.,
        1., 1.])
\x1b[1m\x1b[31m/py/lib/python3.11/site-packages/torch/_ops.py\x1b[0m:875: in __call__
    \x1b[0m\x1b[94mreturn\x1b[39;49;00m \x1b[96mself\x1b[39;49;00m._op(*args, **kwargs)\x1b[90m\x1b[39;49;00m
           ^^^^^^^^^^^^^^^^^^^^^^^^^\x1b[90m\x1b[39;49;00m
        args       = (tensor([1., 1., 1., 1.]), 0, 6)
\x1b[1m\x1b[31mE   IndexError: select(): index 6 out of range for tensor of size [4] at dimension 0\x1b[0m
\x1b[36m\x1b[1m=========================== short test summary info ============================\x1b[0m
"""  # noqa: E501 (pytest's own line)
"""What pytest 9.2 printed of ``picked.pt2`` (``--tb=short -l --color=yes``), some frames left out."""
AUTO = """\
_________________________________ test_picked __________________________________

    def test_picked():
        module = torch.export.load("picked.pt2").module()
>       module(torch.ones(4), torch.tensor(6))

test_job.py:6: 
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ 
/py/lib/python3.11/site-packages/torch/nn/modules/module.py:1832: in inner
    result = forward_call(*args, **kwargs)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
<eval_with_key>.5:23: in forward
    select = torch.ops.aten.select.int(x, 0, item);  x = item = None
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ 

self = <OpOverload(op='aten.select', overload='int')>
args = (tensor([1., 1., 1., 1.]), 0, 6), kwargs = {}

    def __call__(self, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
>       return self._op(*args, **kwargs)
               ^^^^^^^^^^^^^^^^^^^^^^^^^
E       IndexError: select(): index 6 out of range for tensor of size [4] at dimension 0

/py/lib/python3.11/site-packages/torch/_ops.py:875: IndexError
=========================== short test summary info ============================
"""  # noqa: W291 (likewise)
"""The same as pytest prints it by default."""
SOURCE = [
    "Module hierarchy:top(Picked).aten.select.int",
    "Original traceback:",
    'File "models/odd.py", line 67, in forward',
    "    return x.nonzero().sum(), torch.zeros(n).sum() + x[count]",
]


@pytest.mark.parametrize(("log", "marked"), [(SHORT, "E   "), (AUTO, "E       ")])
def test_what_pytest_printed_is_explained(log: str, marked: str) -> None:
    out, explainer = explained(log, "picked")
    assert added(log, out) == [f"{marked}{line}" for line in SOURCE]
    (group,) = explainer.causes.top()
    assert group.cause.message == "select(): index # out of range for tensor of size # at dimension #"


def test_each_of_several_tests_is_a_failure() -> None:
    other = AUTO.replace("index 6", "index 7").replace("test_picked", "test_other")
    _, explainer = explained(AUTO + other + SHORT, "picked")
    assert (explainer.explained, explainer.unknown) == (3, 0)


def test_a_prefix_before_each_line_stays() -> None:
    prefix = "2026-11-30T15:55:06.4153810Z "
    plain, _ = explained(AUTO, "picked")
    out, _ = explained("".join(prefix + line for line in AUTO.splitlines(keepends=True)), "picked")
    assert out == "".join(prefix + line for line in plain.splitlines(keepends=True))


@pytest.mark.parametrize("log", [AUTO, SHORT.replace("\x1b", "")])
def test_a_report_in_xml_is_explained_once(log: str) -> None:
    body = re.sub(r"\[[\d;]*m", "", log).replace("<", "&lt;").replace(">", "&gt;").rstrip("\n")
    xml = f'<testcase name="test_picked"><failure message="IndexError">{body}</failure></testcase>\n'
    out, explainer = explained(xml, "picked")
    assert (explainer.explained, explainer.unknown) == (1, 0)
    assert "Module hierarchy:top(Picked).aten.select.int\n" in out
    again, explainer = explained(out, "picked")
    assert (again, explainer.explained, explainer.unknown) == (out, 0, 0)


def test_a_frame_that_ends_the_error_has_its_message_above() -> None:
    last = (
        ">       select = torch.ops.aten.select.int(x, 0, item);  x = item = None\n"
        "E       IndexError: select(): index 6 out of range for tensor of size [4] at dimension 0\n\n"
        "<eval_with_key>.5:23: IndexError\n"
    )
    out, explainer = explained(last, "picked")
    assert added(last, out) == [f"E       {line}" for line in SOURCE]
    (group,) = explainer.causes.top()
    assert group.cause.message == "select(): index # out of range for tensor of size # at dimension #"
    assert explained(out, "picked")[0] == out


def test_a_failure_of_another_model_stays_with_a_note() -> None:
    for log in (AUTO, SHORT):
        out, explainer = explained(log, "choice")
        assert (out, explainer.unknown) == (log, 1)
        assert "the failure is another model's" in explainer.notes[0]


UNREAD = (
    "<eval_with_key>.5:23: IndexError: select(): index 6 out of range",
    "File <eval_with_key>.5:23, in forward(self, x, count)",
    "<td>&lt;eval_with_key&gt;.5:23: in forward(self)<br>",
    "%3Ceval_with_key%3E.5:23: in forward(self)",
    '{"frames": [{"filename": "<eval_with_key>.5", "lineno": 23, "name": "forward"}]}',
    "<FrameSummary file <eval_with_key>.5, line 23 in forward>",
    "\x1b[1m<eval_with_key>.5\x1b[0m:23: in forward(self)",
    "<eval_with_key>.5 from /py/traced.py:7 in call:23: in forward(self)",
)
"""Frames of generated code in forms that are not read."""


@pytest.mark.parametrize("line", UNREAD)
def test_a_frame_in_a_form_that_is_not_read_is_a_failure_that_stays(line: str) -> None:
    out, explainer = explained(f"started\n{line}\ngoing on\n", "picked")
    assert (out, explainer.explained, explainer.unknown) == (f"started\n{line}\ngoing on\n", 0, 1)
    assert explainer.notes == [f"line 2: {UNREAD_NOTE}"]


def test_a_frame_without_its_statement_is_a_failure_that_stays() -> None:
    line = "<eval_with_key>.5:23: in forward\n"
    out, explainer = explained(line, "picked")
    assert (out, explainer.explained, explainer.unknown) == (line, 0, 1)


@pytest.mark.parametrize(
    "line",
    [
        "<eval_with_key>.5:23: UserWarning: an index is out of range",
        '            if "eval_with_key" in topmost_framesummary.filename:',
        " <eval_with_key>.5 class GraphModule(torch.nn.Module):",
        "# File: <eval_with_key>.5:23 in forward, code: select = x[count]",
    ],
)
def test_what_is_no_frame_is_no_failure(line: str) -> None:
    _, explainer = explained(f"{line}\n", "picked")
    assert (explainer.explained, explainer.unknown, explainer.notes) == (0, 0, [])


@pytest.mark.parametrize("log", [AUTO, SHORT, text("picked", "module").decode()])
def test_of_a_form_that_is_read_the_note_says_no_other(log: str) -> None:
    with archive.open(case("plain_stack").path) as opened:
        explainer = LogExplainer.of(opened)
        assert b"".join(explainer.explain([log.encode()])) == log.encode()
    (note,) = explainer.notes
    assert note.endswith(OTHER_NOTE)
    assert explainer.unknown == 1
