"""PyTorch's refusal of an exported program's inputs → the same with what the program takes.

The program's module checks them before any of its nodes runs, so no line of the model failed::

    File "<eval_with_key>.5", line 18, in forward
      _guards_fn = self._guards_fn(ids, heard, cov);  _guards_fn = None
    …
    AssertionError: Guard failed: cov.size()[0] == 8

``torch.fx.Interpreter`` writes below this that it executed ``_guards_fn``. In both forms, name, dtype and
shape of the inputs that the condition is about are written below the error's line.

A module without guards (``module(check_guards=False)``, ``unflatten``) says where the input stands::

    RuntimeError: Expected input at *args[1].shape[0] to be equal to 6, but got 5

The place counts the caller's arguments, of which a container is several inputs: each input that stands there
or behind it, and is of that size, is written. Source: ``torch/_export/utils.py``, PyTorch 2.13.

**A program without such a condition doesn't explain it**: :mod:`~archive.formats.exported.guards` has those
that PyTorch makes of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.base.strings import decoded
from archive.failures.failure import Answer, Failure, FailureCause
from archive.formats.exported.guards import Guard, guard_at, guard_of
from archive.reader.lacking import why_no_inputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.formats.exported.inputs import ProgramInput

COLOURS = rb"(?:\x1b\[[\d;]{0,16}m){0,4}"
"""Some escapes for a terminal: bounded, as each may begin the failure."""
GUARD = re.compile(
    rb"(?P<prefix>.*?)%bAssertionError%b: %bGuard failed: (?P<condition>[^\x1b]{1,4096}?)%b *"
    % ((COLOURS,) * 4)
)
PLACED = re.compile(
    rb"(?P<prefix>.*?)%bRuntimeError%b: %b(?P<condition>Expected input at "
    rb"(?:\*args\[(?P<number>[0-9]{1,6})\]|(?P<name>[A-Za-z_]\w{0,255}))(?P<keys>[^\x1b]{0,1024}?)"
    rb"(?:\.shape\[(?P<at>[0-9]{1,2})\])? to be (?P<sign>equal to|>=|<=) (?P<size>[^\x1b]{1,256}?),"
    rb" but got [^\x1b]{1,1024}?)(?:\. If you meant for this [^\x1b]*)?%b *" % ((COLOURS,) * 4)
)
EXECUTING_GUARDS = re.compile(rb".*?While executing %_guards_fn : .*\bcall_module\[target=_guards_fn\].*")
EXPLAINED = re.compile(rb"Inputs? of (?:the program|program .*): ")
"""Begins a line of an explanation."""
MOST_BELOW = 16
"""Lines below in which the interpreter's own is looked for."""
MOST_SHOWN = 8
"""Inputs or programs that an explanation has lines of."""


class GuardFailure(Failure):
    """A condition that does not hold."""

    def __init__(self, stream: LogStream) -> None:
        super().__init__(stream)
        line = GUARD.fullmatch(stream.text(0) or b"")
        assert line is not None  # noqa: S101 (else it isn't a failure)
        self.condition = decoded(line["condition"])
        self.message = f"Guard failed: {self.condition}"

    @property
    def is_explained(self) -> bool:
        """Whether an explanation stands below it."""
        return EXPLAINED.match(self.stream.text(1, is_patient=False) or b"") is not None

    def leave(self) -> None:
        """Leave the line of the interpreter as it is: it begins no other failure."""
        for at in range(1, MOST_BELOW):
            text = self.stream.text(at, is_patient=False)
            if text is None or EXECUTING_GUARDS.fullmatch(text):
                if text is not None:
                    self.stream.line(at).output = self.stream.line(at).data
                return
            if text and not EXPLAINED.match(text):
                return

    def answer(self, model: OneModel) -> Answer | None:
        programs = model.archive.programs
        if not programs:
            return None
        self.leave()
        lines, names, texts, why = list[str](), set[str](), set[str](), ""
        for name, program in programs.items():
            if program.inputs is None:
                note = f"{self.what}: {why_no_inputs(model.archive)}"
                is_alone = not model.archive.has_code
                return Answer(self, None, ((0, note),), is_possible=True, is_unrecorded=is_alone)
            guard = self.guard(program.inputs, program.guards)
            why = why or guard.why
            if not guard.why:
                of = "the program" if len(programs) == 1 else f"program {one_line(name)}"
                lines += [f"Input of {of}: {one_line(given.text)}" for given in guard.inputs]
                names |= {given.name for given in guard.inputs}
                texts |= {given.text for given in guard.inputs}
        if not lines:
            note = f"{self.what}: {why}: the failure is another model's, or version's"
            return Answer(self, None, ((0, note),))
        if len(lines) > MOST_SHOWN:
            lines[MOST_SHOWN:] = [f"Inputs of the program: {len(lines) - MOST_SHOWN:,} more"]
        where = ", ".join(f"input {one_line(name)}" for name in sorted(names) if name)
        cause = FailureCause("", 0, where, self.message)
        text, facts = ("\n".join(each).encode("utf-8", "surrogatepass") for each in (lines, sorted(texts)))
        return Answer(self, text, is_possible=True, facts=facts, cause=cause)

    def guard(self, inputs: Sequence[ProgramInput], recorded: Iterable[str]) -> Guard:
        """The condition as one of a program's."""
        return guard_of(self.condition, inputs, recorded)

    @property
    def what(self) -> str:
        return f"condition {one_line(self.condition)}"

    @property
    def key(self) -> str:
        return self.condition


class PlacedFailure(GuardFailure):
    """An input at a place that isn't of the program's size, or value."""

    def __init__(self, stream: LogStream) -> None:
        Failure.__init__(self, stream)
        line = PLACED.fullmatch(stream.text(0) or b"")
        assert line is not None  # noqa: S101 (else it isn't a failure)
        self.message = self.condition = decoded(line["condition"])
        self._number = int(line["number"] or 0)
        self._name = "" if line["keys"] else decoded(line["name"] or b"")
        self._at = None if line["at"] is None else int(line["at"])
        self._sign, self._size = decoded(line["sign"]), decoded(line["size"])

    def guard(self, inputs: Sequence[ProgramInput], recorded: Iterable[str]) -> Guard:  # noqa: ARG002 (of sizes)
        return guard_at(inputs[self._number :], self._name, self._at, self._sign, self._size)
