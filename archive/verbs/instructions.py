"""Instructions of ExecuTorch's runtime → the nodes that an ETRecord says they come from.

An instruction is named as the runtime prints it, the chain before its number: ``0:17``; of several methods,
with the method before it: ``forward/0:17``. Its debug handles stand for nodes of the method's program in
ExecuTorch's operators. A handle may stand for several, as ``linear`` becomes ``permute_copy`` and ``addmm``:
the operator that the instruction runs tells which.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from archive.base.errors import one_line, shown
from archive.formats.etrecord import edge_program, node_handles
from archive.verbs.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.formats.etrecord import Instruction
    from archive.formats.exported.program import Program
    from archive.reader.archive import Archive

NAME = re.compile(r"(?:(?P<method>.+)/)?(?P<chain>[0-9]{1,9}):(?P<number>[0-9]{1,9})", re.DOTALL)
ONLY_CHAIN = 0
"""ExecuTorch writes one chain of instructions a method."""
PRIMITIVES = "executorch_prim::"
"""The namespace of operators on sizes, which in a program are functions of Python."""
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
        self._by_handle: dict[str, dict[int, list[Node]]] = {}

    def named(self, name: str) -> list[Place]:
        """The instructions that a name stands for: those of each method, if it names none.

        Raises:
            ArchiveError: a record that is needed is broken.
        """
        found = NAME.fullmatch(name)
        if found is None or int(found["chain"]) != ONLY_CHAIN:
            return []
        numbered = self.numbered(int(found["number"]))
        return [one for one in numbered if found["method"] in (None, one.method)]

    def numbered(self, number: int) -> list[Place]:
        """The instructions of a number, in each method that has something recorded of it.

        Raises:
            ArchiveError: a record that is needed is broken.
        """
        return [
            Place(method, number, instructions[number], self._nodes(method, instructions[number]))
            for method, instructions in self._archive.instructions.items()
            if number in instructions
        ]

    def has_gap(self, number: int) -> bool:
        """Whether some method has an instruction of a number, and nothing is recorded of it."""
        return any(
            number not in instructions and number < max(instructions, default=-1)
            for instructions in self._archive.instructions.values()
        )

    def _nodes(self, method: str, instruction: Instruction) -> tuple[Node, ...]:
        """The nodes that an instruction's handles stand for, each once."""
        known = self._of_method(method)
        return tuple(dict.fromkeys(node for one in instruction.handles for node in known.get(one, ())))

    def _of_method(self, method: str) -> dict[int, list[Node]]:
        """The nodes of a method's program by their handles; empty where the record lacks the program."""
        if method not in self._by_handle:
            found = self._by_handle[method] = defaultdict(list)
            name = edge_program(method, self._archive.programs)
            for node in () if name is None else _all_nodes(self._archive.programs[name]):
                for handle in node_handles(node.site.metadata):
                    found[handle].append(node)
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
        handles = ", ".join(str(handle) for place in places for handle in place.instruction.handles[:SHOWN])
        return f"instruction {shown(name)} has the debug handle {handles or 'of none'}, which no node has"
    some = [
        f"{one_line(method)}/{ONLY_CHAIN}:{min(numbers)} to {max(numbers)}"
        for method, numbers in islice(archive.instructions.items(), SHOWN)
        if numbers
    ]
    return f"no node is recorded for instruction {shown(name)}; there are {', '.join(some) or 'none'}"


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
