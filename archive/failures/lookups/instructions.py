"""Instructions of ExecuTorch's runtime → the nodes that an ETRecord says they come from.

An instruction is named as the runtime prints it, the chain before its number: ``0:17``; of several methods,
with the method before it: ``forward/0:17``. Its debug handles stand for nodes of the method's program in
ExecuTorch's operators. A handle may stand for several, as ``linear`` becomes ``permute_copy`` and ``addmm``:
the operator that the instruction runs tells which.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from archive.base.errors import one_line, shown
from archive.base.limits import Steps
from archive.failures.lookups.nodes import Node
from archive.failures.lookups.regions import Regions
from archive.formats.etrecord import edge_program, node_handles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from archive.formats.etrecord import Instruction
    from archive.formats.exported.program import Program
    from archive.reader.archive import Archive

NAME = re.compile(r"(?:(?P<method>.+)/)?(?P<chain>[0-9]{1,9}):(?P<number>[0-9]{1,9})", re.DOTALL)
ONLY_CHAIN = 0
"""ExecuTorch writes one chain of instructions a method."""
PRIMITIVES = "executorch_prim::"
"""The namespace of operators on sizes, which in a program are functions of Python."""
ADDED = (PRIMITIVES, "aten::copy_.")
"""What ExecuTorch runs without a node of the model, behind the last one too: on sizes and views, and to give
buffers their new values (``exir/passes/insert_write_back_for_buffers_pass.py``)."""
BYTES_A_HANDLE = 256
"""Bytes of memory that a handle of a node costs at most."""
SHOWN = 5
"""Methods or handles that a message names."""
PYTHON = re.compile(r"(?:_operator|math|builtins|torch)\.(\w+)")


@dataclass(frozen=True)
class Place:
    """An instruction of a method.

    Attributes:
        method: its name.
        number: in the method's only chain.
        instruction: what is recorded of it.
        nodes: that its handles stand for.
    """

    method: str
    number: int
    instruction: Instruction
    nodes: tuple[Node, ...]

    @property
    def label(self) -> str:
        """Its name: ``forward/0:17``."""
        return f"{self.method}/{ONLY_CHAIN}:{self.number}"

    @property
    def of_backend(self) -> str:
        """Words for an instruction that calls a backend; "" for others."""
        delegate = self.instruction.delegate
        if delegate is None:
            return ""
        backend = one_line(delegate.backend)
        return f"{one_line(self.label)} calls {backend}, which took some or all nodes of these debug handles"


class Places:
    """The instructions of an ETRecord, with their nodes.

    Args:
        archive: the ETRecord; others have no instructions.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._regions = Regions(archive)
        self._by_handle: dict[str, dict[int, list[Node]]] = {}

    def named(self, name: str) -> list[Place]:
        """The instructions that a name stands for: those of each method, if it names none.

        Raises:
            ArchiveError: a record that is needed is broken.
            LimitError: it stands for more nodes than ``Limits.work`` allows steps.
        """
        found = NAME.fullmatch(name)
        if found is None or int(found["chain"]) != ONLY_CHAIN:
            return []
        number, steps = int(found["number"]), Steps(self._archive.limits.work)
        return self.numbered(number, steps, only=found["method"])

    def numbered(self, number: int, steps: Steps, *, only: str | None = None) -> list[Place]:
        """The instructions of a number, in each method that has something recorded of it.

        Args:
            number: in the only chain.
            steps: counts a step for each of them, and for each of their nodes.
            only: the method; None for all.

        Raises:
            ArchiveError: a record that is needed is broken.
            LimitError: more steps are taken than allowed.
        """
        methods = self._methods.get(number, ())
        return [self._place(one, number, steps) for one in methods if only in (None, one)]

    def has_gap(self, number: int) -> bool:
        """Whether some method has an instruction of a number, and nothing is recorded of it."""
        longer = len(self._lasts) - bisect_right(self._lasts, number)
        recorded = sum(number < self._last[method] for method in self._methods.get(number, ()))
        return longer > recorded

    def has_branch(self, number: int, operator: str, steps: Steps) -> bool:
        """Whether a branch of ``cond`` may have an instruction: ExecuTorch 1.5 records none of those.

        Args:
            number: in the only chain.
            operator: as the runtime prints it; "" for a call of a backend, which may stand in any branch.
            steps: counts a step for each operator that is compared.

        Raises:
            ArchiveError: a program is broken.
            LimitError: more steps are taken than allowed.
        """
        for method, nodes in self._inner.items():
            steps.take(1 + len(nodes))
            is_free = number not in self._archive.instructions[method]
            if is_free and any(not operator or runs(operator, node) for node in nodes):
                return True
        return False

    @cached_property
    def _inner(self) -> dict[str, list[Node]]:
        """A node of each operator in graphs inside of others, by method; only methods that have some."""
        found = dict[str, list[Node]]()
        for method in self._archive.instructions:
            name = edge_program(method, self._archive.programs)
            nodes = () if name is None else _all_nodes(self._archive.programs[name])
            inner = {node.site.target: node for node in nodes if node.site.scopes}
            if inner:
                found[method] = list(inner.values())
        return found

    @cached_property
    def _methods(self) -> dict[int, list[str]]:
        """The methods that have something recorded of an instruction, by its number."""
        found = defaultdict[int, list[str]](list)
        for method, instructions in self._archive.instructions.items():
            for number in instructions:
                found[number].append(method)
        return found

    @cached_property
    def _last(self) -> dict[str, int]:
        """The number of each method's last instruction of which something is recorded."""
        return {method: max(numbers) for method, numbers in self._archive.instructions.items() if numbers}

    @cached_property
    def _lasts(self) -> list[int]:
        """These numbers in ascending order."""
        return sorted(self._last.values())

    def _place(self, method: str, number: int, steps: Steps) -> Place:
        """An instruction, with the nodes that its handles stand for, each once."""
        instruction = self._archive.instructions[method][number]
        known = self._of_method(method)
        found: dict[Node, None] = {}
        steps.take()
        for handle in dict.fromkeys(instruction.handles):
            nodes = known.get(handle, ())
            steps.take(len(nodes))
            found.update(dict.fromkeys(nodes))
        return Place(method, number, instruction, tuple(found))

    def _of_method(self, method: str) -> dict[int, list[Node]]:
        """The nodes of a method's program by their handles; empty where the record lacks the program."""
        if method not in self._by_handle:
            name = edge_program(method, self._archive.programs)
            found = defaultdict[int, list[Node]](list)
            for node in () if name is None else _all_nodes(self._archive.programs[name]):
                handles = node_handles(node.site.metadata)
                self._archive.allowance.take(BYTES_A_HANDLE * len(handles), "debug handles")
                sourced = self._regions.sourced(node) if handles else node
                for handle in handles:
                    found[handle].append(sourced)
            self._by_handle[method] = found
        return self._by_handle[method]


def _all_nodes(program: Program) -> Iterator[Node]:
    return (Node(program, site) for site in program.sites.values())


def is_instruction(name: str) -> bool:
    """Whether a name is that of an instruction."""
    return NAME.fullmatch(name) is not None


def why_no_nodes(archive: Archive, name: str, places: Sequence[Place]) -> str:
    """Words for an instruction that stands for no node.

    Args:
        archive: the ETRecord.
        name: of the instruction.
        places: that the name stands for.
    """
    if places:
        every = (handle for place in places for handle in place.instruction.handles)
        handles = ", ".join(map(str, islice(every, SHOWN)))
        return f"no node has the debug handle of instruction {shown(name)}: {handles or 'none is recorded'}"
    some = [
        f"{_some_of(numbers)}{one_line(method)}/{ONLY_CHAIN}:{min(numbers)} to {max(numbers)}"
        for method, numbers in islice(archive.instructions.items(), SHOWN)
        if numbers
    ]
    return f"no node is recorded for instruction {shown(name)}; there are {', '.join(some) or 'none'}"


def _some_of(numbers: Collection[int]) -> str:
    """Words for numbers that are not all from the first to the last."""
    every = max(numbers) - min(numbers) + 1
    return "" if len(numbers) == every else f"{len(numbers)} of "


def runs(operator: str, node: Node) -> bool:
    """Whether an operator of the runtime is that of a node, in the form that writes into its last argument.

    Such a form has the same name and another overload: ``aten::add.out`` is ``aten.add.Tensor``.

    Args:
        operator: as the runtime prints it: ``aten::embedding.out``.
        node: the node.
    """
    namespace, _, name = operator.partition("::")
    base = name.partition(".")[0]
    if operator.startswith(PRIMITIVES):
        found = PYTHON.fullmatch(node.site.target)
        return found is not None and found[1] == base
    return node.site.target.split(".")[-3:-1] == [namespace, base]
