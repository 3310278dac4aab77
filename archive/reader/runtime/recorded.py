"""Runs of ExecuTorch, and the ETRecord of a program: whether it is the one that ran, and which method.

An ETRecord is of the program that ran, if

- each kernel has the operator of a node that the record gives its instruction; or nothing is recorded of it,
  and ExecuTorch may have added it (:meth:`~archive.reader.lookups.instructions.InstructionNodes.may_lack`);
- backends are called where the record has it, and what XNNPACK notes of its products is so of a node of the
  call (:mod:`~archive.reader.runtime.xnnpack_notes`);
- if the program is given: each instruction is of the program's kind and has its operator;
- a run that ended and never jumped has run every instruction of the record.

This also shows which method ran; no event says so. Programs that run the same operators in the same order
look the same.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, one_line
from archive.base.limits import Steps
from archive.formats.etdump import DELEGATE_CALL, JUMP_CALL, OPERATOR_CALL
from archive.formats.executorch import layout
from archive.formats.executorch.layout import KERNEL_CALL
from archive.reader.lookups.instructions import ONLY_CHAIN, InstructionNodes, runs
from archive.reader.runtime.xnnpack_notes import BACKEND as XNNPACK
from archive.reader.runtime.xnnpack_notes import contradiction
from archive.reader.runtime.xnnpack_order import handles_of_notes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.reader.archive import Archive
    from archive.reader.lookups.instructions import MethodInstruction
    from archive.reader.lookups.own_program import OwnProgram
    from archive.reader.runtime.runs import Call, Ran, Run

KINDS = {
    OPERATOR_CALL: KERNEL_CALL.name,
    DELEGATE_CALL: layout.DELEGATE_CALL.name,
    JUMP_CALL: layout.JUMP_CALL.name,
    "MOVE_CALL": layout.MOVE_CALL.name,
    "FREE_CALL": layout.FREE_CALL.name,
}
"""The instructions of a program, by what the runtime notes of them."""
SHOWN = 5
"""Operators or methods that a message names."""


class RecordedRuns:
    """The methods of an ETRecord, one of which each run is of.

    Args:
        only: the method that ran; None to find it from the runs.
        program: that the ETRecord was made with; None if it isn't given.
    """

    def __init__(self, archive: Archive, only: str | None, program: OwnProgram | None = None) -> None:
        self._program = program
        self._handles: dict[tuple[str, int, tuple[str, ...]], Mapping[str, int]] = {}
        self._nodes = InstructionNodes(archive)
        self._steps = Steps(archive.limits.work)
        self._archive = archive
        self._methods = [method for method, numbers in archive.instructions.items() if numbers]
        if only is not None or not self._methods:
            names = ", ".join(map(one_line, self._methods[:SHOWN])) or "none"
            if only not in self._methods:
                expected = "a method with debug handles" + (f", {one_line(only)}" if only else "")
                raise ArchiveError(expected=expected, found=names, file=archive.file)
            self._methods = [only]
        self._found: dict[tuple[frozenset[Ran], frozenset[tuple[Ran, str]], bool], list[str]] = {}
        self._instructions: dict[tuple[str, int], MethodInstruction | None] = {}

    def method_of(self, run: Run) -> str:
        """The method that ran.

        Raises:
            ArchiveError: the run fits several, or none.
        """
        fitting = self.fitting(run)
        if len(fitting) > 1:
            names = ", ".join(map(one_line, fitting[:SHOWN]))
            raise ArchiveError(f"a run fits each of these methods: {names}; choose one with --method")
        return fitting[0]

    def fitting(self, run: Run) -> list[str]:
        """The methods that a run fits; at least one.

        Raises:
            ArchiveError: it fits none: it is of another program.
        """
        ran = frozenset(call.ran for call in run.calls)
        notes = frozenset((call.ran, event.delegate) for call in run.calls for event in call.inner)
        is_all = run.whole is not None and all(one.call != JUMP_CALL for one in ran)
        if (ran, notes, is_all) not in self._found:
            self._steps.take((len(ran) + len(notes)) * len(self._methods))
            against = {
                method: self._contradiction(method, ran, is_all=is_all) or self._against_notes(method, notes)
                for method in self._methods
            }
            fitting = [method for method, why in against.items() if why is None]
            if not fitting:
                why = next(iter(against.values()))
                others = f"; nor does it fit {len(against) - 1} other methods" if len(against) > 1 else ""
                raise ArchiveError(f"{why}{others}: the ETDump is not of the program of {self._archive.file}")
            self._found[ran, notes, is_all] = fitting
        return self._found[ran, notes, is_all]

    def instruction(self, method: str, ran: Ran) -> MethodInstruction | None:
        """An instruction with its nodes; None where nothing is recorded of it."""
        if ran.chain != ONLY_CHAIN:
            return None
        key = method, ran.number
        if key not in self._instructions:
            found = self._nodes.numbered(ran.number, self._steps, only=method)
            self._instructions[key] = found[0] if found else None
        return self._instructions[key]

    def handles_of_notes(self, method: str, call: Call) -> Mapping[str, int]:
        """The debug handles of the nodes that a call's notes are of, as far as the program shows it."""
        if self._program is None or not call.inner or call.ran.chain != ONLY_CHAIN:
            return {}
        key = method, call.ran.number, tuple(event.delegate for event in call.inner)
        if key not in self._handles:
            nodes = self._program.xnnpack_nodes(method, call.ran.number)
            self._steps.take(len(nodes) + len(call.inner))
            self._handles[key] = handles_of_notes(key[2], nodes)
        return self._handles[key]

    def _contradiction(self, method: str, every: frozenset[Ran], *, is_all: bool) -> str | None:
        """What a method's instructions have against a run of it, in words; None for nothing."""
        for ran in sorted(every):
            if why := self._against_program(method, ran):
                return why
            if not self._fits(method, ran):
                what = f"instruction {ran.label} ran {one_line(ran.operator or ran.call)}"
                return f"{what}, and {_words(self.instruction(method, ran))} the ETRecord"
        if is_all:
            numbers = {ran.number for ran in every if ran.chain == ONLY_CHAIN}
            left = next((n for n in self._archive.instructions[method] if n not in numbers), None)
            if left is not None:
                return f"a run ended without instruction {ONLY_CHAIN}:{left} of the ETRecord"
        return None

    def _against_program(self, method: str, ran: Ran) -> str | None:
        """What the program has against a run of an instruction, in words; None for nothing."""
        if self._program is None or ran.chain != ONLY_CHAIN:
            return None
        kind, callee = self._program.called(method, ran.number)
        operator = callee.rpartition("::")[2] if kind == KERNEL_CALL.name else ""
        if KINDS[ran.call] == kind and ran.operator in ("", operator):
            return None
        what = f"instruction {ran.label} ran {one_line(ran.operator or ran.call)}"
        return f"{what}, and {f'is {one_line(callee or kind)}' if kind else 'is not'} in the program"

    def _against_notes(self, method: str, notes: frozenset[tuple[Ran, str]]) -> str | None:
        """What a method's nodes have against what backends noted in a run, in words; None for nothing."""
        for ran, of_call in groupby(sorted(notes), key=itemgetter(0)):
            recorded = self.instruction(method, ran)
            delegate = None if recorded is None else recorded.instruction.delegate
            if recorded is None or delegate is None or delegate.backend != XNNPACK:
                continue
            self._steps.take(len(recorded.nodes))
            if why := contradiction([note for _, note in of_call], recorded.nodes):
                return f"instruction {ran.label} {why} in the ETRecord"
        return None

    def _fits(self, method: str, ran: Ran) -> bool:
        """Whether a method may have run an instruction."""
        recorded = self.instruction(method, ran)
        if recorded is None:
            is_unnamed = ran.call != DELEGATE_CALL and not ran.operator
            return is_unnamed or self._nodes.may_lack(method, ran.number, ran.operator, self._steps)
        if (ran.call == DELEGATE_CALL) is not (recorded.instruction.delegate is not None):
            return False
        if ran.call not in {OPERATOR_CALL, DELEGATE_CALL}:  # a jump or a move is of no node
            return not recorded.nodes
        operator = ran.operator
        return not operator or not recorded.nodes or any(runs(operator, node) for node in recorded.nodes)


def _words(recorded: MethodInstruction | None) -> str:
    """What an instruction is, up to the name of the record."""
    if recorded is None:
        return "isn't in"
    if recorded.instruction.delegate is not None:
        return f"calls {one_line(recorded.instruction.delegate.backend)} in"
    operators = dict.fromkeys(one_line(node.op) for node in recorded.nodes)
    return f"is {' or '.join([*operators][:SHOWN]) or 'no call of a backend'} in"
