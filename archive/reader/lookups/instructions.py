"""Instructions of ExecuTorch's runtime → the nodes that an ETRecord says they come from.

An instruction is named as the runtime prints it, its chain before its number: ``0:17``; where there are
several methods, with the method first: ``forward/0:17``. Its debug handles stand for nodes of the method's
program in ExecuTorch's operators. One handle may stand for several nodes, as ``linear`` becomes
``permute_copy`` and ``addmm``: the operator that the instruction runs decides which.

A node may come from a *region*. PyTorch exports a region under ``torch.no_grad`` or ``torch.autocast`` as one
node that holds a graph. To lower it, ExecuTorch runs the graph's generated code, so the nodes have that code
as their stack trace:

    File "<eval_with_key>.43", line 6, in forward
      embedding_1 = torch.ops.aten.embedding.default(p_words_weight, second);  second = None

The record also has the exported program. ``from_node`` leads to the node that holds the graph, if the graph
that it names is the one whose ``id`` is in ``export_graph_id``. The code shows name, operator and arguments
of the node in the held graph, and that node's own trace is the model's.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import in_file, one_line, shown
from archive.base.json_text import read_json
from archive.base.limits import Steps
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.sites import FX_FILE
from archive.formats.etrecord import edge_program, node_handles
from archive.formats.exported.node_metadata import MODULES, STACK_TRACE
from archive.formats.record_kinds import EXPORTED, GRAPH_ID
from archive.reader.lookups.nodes import ProgramNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.formats.etrecord import Instruction
    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite
    from archive.reader.archive import Archive

NAME = re.compile(r"(?:(?P<method>.+)/)?(?P<chain>[0-9]{1,9}):(?P<number>[0-9]{1,9})", re.DOTALL)
ONLY_CHAIN = 0
"""ExecuTorch writes one chain of instructions per method."""
PRIMITIVES = "executorch_prim::"
"""The namespace of operators on sizes, which in a program are functions of Python."""
ADDED = (PRIMITIVES, "aten::copy_.")
"""What ExecuTorch runs without a node of the model, even after the last one: on sizes and views, and to give
buffers their new values (``exir/passes/insert_write_back_for_buffers_pass.py``)."""
SHOWN = 5
"""Methods or handles that a message names."""
PYTHON = re.compile(r"(?:_operator|math|builtins|torch)\.(\w+)")
STATEMENT = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?: *:[^=]*)? = (?P<target>[\w.]+)\((?P<arguments>.*)", re.DOTALL
)
WORD = re.compile(r"[A-Za-z_]\w*")
MOST_GRAPHS = 16
"""Graphs of one node that are searched for a node by its name; PyTorch's have at most two."""


@dataclass(frozen=True)
class MethodInstruction:
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
    nodes: tuple[ProgramNode, ...]

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


@memory.kept
class InstructionNodes:
    """The instructions of an ETRecord, with their nodes.

    Args:
        archive: the ETRecord; others have no instructions.
    """

    def __init__(self, archive: Archive) -> None:
        self.archive, self.allowance = archive, archive.allowance
        self._regions = Regions(archive)
        self._by_handle: dict[str, dict[int, list[ProgramNode]]] = {}

    def named(self, name: str) -> list[MethodInstruction]:
        """The instructions that a name stands for: those of every method, if it names none."""
        parts = NAME.fullmatch(name)
        if parts is None or int(parts["chain"]) != ONLY_CHAIN:
            return []
        return self.numbered(int(parts["number"]), Steps(self.archive.limits.work), only=parts["method"])

    def numbered(self, number: int, steps: Steps, *, only: str | None = None) -> list[MethodInstruction]:
        """The instructions with a number, in each method that records something of it.

        Args:
            number: in the only chain.
            steps: counts a step for each of them and each of their nodes.
            only: the method; None for all.
        """
        methods = self._methods.get(number, ())
        return [self._instruction(method, number, steps) for method in methods if only in (None, method)]

    def has_method(self, method: str) -> bool:
        """Whether the ETRecord has anything of a method."""
        has_program = edge_program(method, self.archive.programs) is not None
        return has_program or method in self.archive.instructions

    def has_gap(self, number: int, *, only: str | None) -> bool:
        """Whether some method has an instruction with a number of which nothing is recorded.

        Args:
            number: in the only chain.
            only: the method; None for all.
        """
        if only is not None:
            is_free = number not in self.archive.instructions.get(only, {})
            return is_free and number < self._last.get(only, -1)
        longer = len(self._lasts) - bisect_right(self._lasts, number)
        recorded = sum(number < self._last[method] for method in self._methods.get(number, ()))
        return longer > recorded

    def has_branch(self, number: int, operator: str, steps: Steps, *, only: str | None) -> bool:
        """Whether a branch of ``cond`` may have an instruction: ExecuTorch 1.5 records none of these.

        Args:
            number: in the only chain.
            operator: as the runtime prints it; "" for a call of a backend, which may stand in any branch.
            steps: counts a step for each operator that is compared.
            only: the method; None for all.
        """
        for method, nodes in self._inner.items():
            if only not in (None, method):
                continue
            steps.take(1 + len(nodes))
            is_free = number not in self.archive.instructions[method]
            if is_free and any(not operator or runs(operator, node) for node in nodes):
                return True
        return False

    def may_lack(self, method: str, number: int, operator: str, steps: Steps) -> bool:
        """Whether a method may have run an instruction of which nothing is recorded.

        ExecuTorch adds instructions between those of nodes and, to give buffers their new values, after the
        last one; and it records none of a branch.

        Args:
            number: in the only chain.
            operator: as the program has it, ``aten::copy_``, or the runtime notes it, ``copy_.out``; "" for a
                call of a backend.
            steps: counts a step for each operator that is compared.
        """
        in_branches = self._inner.get(method, ())
        steps.take(1 + len(in_branches))
        is_before_last = number < self._last.get(method, number)
        name = operator.rpartition("::")[2].partition(".")[0]
        is_written_back = any(added.endswith(f"::{name}.") for added in ADDED)
        is_in_branch = any(not operator or runs(operator, node) for node in in_branches)
        return is_before_last or is_written_back or is_in_branch

    @cached_property
    def _inner(self) -> dict[str, list[ProgramNode]]:
        """A node of each operator in inner graphs, by method; only methods that have some."""
        inner = dict[str, list[ProgramNode]]()
        for method in self.archive.instructions:
            name = edge_program(method, self.archive.programs)
            nodes = () if name is None else _all_nodes(self.archive.programs[name])
            if by_target := {node.site.target: node for node in nodes if node.site.scopes}:
                inner[method] = list(by_target.values())
        return inner

    @cached_property
    def _methods(self) -> dict[int, list[str]]:
        """The methods that record something of an instruction, by its number."""
        methods = defaultdict[int, list[str]](list)
        for method, instructions in self.archive.instructions.items():
            for number in instructions:
                methods[number].append(method)
        return methods

    @cached_property
    def _last(self) -> dict[str, int]:
        """The number of each method's last recorded instruction."""
        return {method: max(numbers) for method, numbers in self.archive.instructions.items() if numbers}

    @cached_property
    def _lasts(self) -> list[int]:
        """These numbers in ascending order."""
        return sorted(self._last.values())

    def _instruction(self, method: str, number: int, steps: Steps) -> MethodInstruction:
        """An instruction, with the nodes that its handles stand for, without duplicates."""
        instruction = self.archive.instructions[method][number]
        if method not in self._by_handle:  # empty where the record lacks the program
            name = edge_program(method, self.archive.programs)
            by_handle = defaultdict[int, list[ProgramNode]](list)
            for node in () if name is None else _all_nodes(self.archive.programs[name]):
                handles = node_handles(node.site.metadata)
                memory.take(memory.TEXT * len(handles), "debug handles")
                sourced = self._regions.sourced(node) if handles else node
                for handle in handles:
                    by_handle[handle].append(sourced)
            self._by_handle[method] = by_handle
        nodes: dict[ProgramNode, None] = {}
        steps.take()
        for handle in dict.fromkeys(instruction.handles):
            of_handle = self._by_handle[method].get(handle, ())
            steps.take(len(of_handle))
            nodes.update(dict.fromkeys(of_handle))
        return MethodInstruction(method, number, instruction, tuple(nodes))


def _all_nodes(program: Program) -> Iterator[ProgramNode]:
    return (ProgramNode(program, site) for site in program.sites.values())


def is_instruction(name: str) -> bool:
    """Whether a name is that of an instruction."""
    return NAME.fullmatch(name) is not None


def why_no_nodes(archive: Archive, name: str, instructions: Sequence[MethodInstruction]) -> str:
    """Words for an instruction that stands for no node.

    Args:
        instructions: those that the name stands for.
    """
    if instructions:
        every = (handle for instruction in instructions for handle in instruction.instruction.handles)
        handles = ", ".join(map(str, islice(every, SHOWN)))
        return f"no node has the debug handle of instruction {shown(name)}: {handles or 'none is recorded'}"
    ranges = []
    for method, numbers in islice(archive.instructions.items(), SHOWN):
        if numbers:
            first, last = min(numbers), max(numbers)
            some_of = "" if len(numbers) == last - first + 1 else f"{len(numbers)} of "
            ranges.append(f"{some_of}{one_line(method)}/{ONLY_CHAIN}:{first} to {last}")
    return f"no node is recorded for instruction {shown(name)}; there are {', '.join(ranges) or 'none'}"


def runs(operator: str, node: ProgramNode) -> bool:
    """Whether an operator of the runtime is that of a node, in the form that writes into its last argument.

    This form has the same name and another overload: ``aten::add.out`` is ``aten.add.Tensor``.

    Args:
        operator: as the runtime prints it, ``aten::embedding.out``; or as it logs it, ``embedding.out``,
            which may be of any namespace.
    """
    namespace, _, name = operator.rpartition("::")
    base = name.partition(".")[0]
    if operator.startswith(PRIMITIVES):
        function = PYTHON.fullmatch(node.site.target)
        return function is not None and function[1] == base
    parts = node.site.target.split(".")
    return parts[-3:-1] == [namespace, base] if namespace else parts[-2:-1] == [base]


# --- regions


class Regions:
    """The regions of an ETRecord's exported program."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def sourced(self, node: ProgramNode) -> ProgramNode:
        """A node with the model's own trace and modules instead of generated code's, where known."""
        frames = node.site.frames.frames if node.site.frames else ()
        if not frames or not all(frame.file.startswith(FX_FILE) for frame in frames):
            return node
        holder: str | None = None  # the node of the exported program that the node was made from
        origins = node.site.origins
        while origins and holder is None:
            holder = origins[-1].name if origins[-1].graph == self._graph_id else None
            origins = origins[-1].origins
        inner: NodeSite | None = None
        for frame in frames:
            inner = None if holder is None else self._of_statement(holder, frame.code or "")
            holder = None if inner is None else inner.key
        if inner is None:
            return node
        known = {key: text for key, text in inner.metadata.items() if key in (STACK_TRACE, MODULES)}
        return ProgramNode(node.program, replace(node.site, metadata={**node.site.metadata, **known}))

    def _of_statement(self, holder: str, code: str) -> NodeSite | None:
        """The only node in the graphs of another one that a statement may belong to."""
        statement = STATEMENT.fullmatch(code)
        if statement is None:
            return None
        held = self._held.get((holder, statement["name"]), [])
        if len(held) > MOST_GRAPHS:
            return None
        there = set(WORD.findall(statement["arguments"]))
        fitting = [
            site
            for site in held
            if site.target == statement["target"] and there.issuperset(site.arguments or ())
        ]
        return fitting[0] if len(fitting) == 1 else None

    @cached_property
    def _graph_id(self) -> int | None:
        """The ``id`` of the exported program's graph in the process that exported it; None if unknown."""
        record = self._archive.records.get(GRAPH_ID)
        if record is None:
            return None
        with in_file(self._archive.file, GRAPH_ID):
            graph_id: object = read_json(record.view())
        return graph_id if isinstance(graph_id, int) else None

    @cached_property
    def _held(self) -> dict[tuple[str, str], list[NodeSite]]:
        """The exported program's nodes by the key of what holds their graph, and by their names."""
        sites = defaultdict[tuple[str, str], list["NodeSite"]](list)
        if EXPORTED in self._archive.programs:
            for site in self._archive.programs[EXPORTED].sites.values():
                sites[site.holder, site.name].append(site)
        return sites
