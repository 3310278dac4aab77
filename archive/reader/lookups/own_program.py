"""Whether an ETRecord was made with a program: method by method, what each instruction runs, and on what.

The record is the program's own, if

- both have the same methods;
- each instruction that the record has something of is in the program, and calls the operator of a node of its
  handles, on tensors of the node's types and sizes; or the backend that the record says, on tensors that the
  nodes of the call take or make;
- the program calls nothing else but what ExecuTorch adds
  (:meth:`~archive.reader.lookups.instructions.InstructionNodes.may_lack`);
- XNNPACK's part has only debug handles of the call's nodes, and its values are quantised if and only if these
  quantise or dequantise: at all, by channel, and while they run.

An operator's form that writes into its last argument takes the tensors of the node, then those that it makes,
and names these again as what it returns. Sizes that vary do so in both, and may be any. Programs that run the
same operators on tensors of the same types and sizes look the same, whatever their weights are.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.limits import Steps
from archive.formats.etrecord import edge_program
from archive.formats.executorch import xnnpack
from archive.formats.executorch.layout import DELEGATE_CALL, KERNEL_CALL
from archive.formats.executorch.model import FIXED
from archive.formats.executorch.program import read_program
from archive.formats.exported.sites import named_values
from archive.formats.tensors.dtypes import SCALARS
from archive.reader.lookups.instructions import ONLY_CHAIN, InstructionNodes, runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.formats.executorch.model import ExecutorchProgram, Instruction, Method, ProgramTensor, Span
    from archive.formats.executorch.xnnpack import XnnpackGraph, XnnpackNode
    from archive.reader.archive import Archive
    from archive.reader.lookups.instructions import MethodInstruction
    from archive.reader.lookups.nodes import ProgramNode

QUANTISES = re.compile("quantize|choose_qparams")
WAYS = QUANTISES, re.compile("per_channel"), re.compile("choose_qparams|per_token")
"""Parts of the names of operators that quantise or dequantise: at all, by channel, while they run."""
HOW = "", " by channel", " while it runs"
ANYHOW = "affine"
"""Part of the names of those that may do so in any way."""


class Recorded(NamedTuple):
    """A tensor as an ETRecord has it.

    Attributes:
        dtype: ``float32``; "" if unknown.
        sizes: None for one that varies.
    """

    dtype: str
    sizes: tuple[int | None, ...]

    def may_be(self, tensor: ProgramTensor) -> bool:
        """Whether a tensor of a program may be this one."""
        return (
            self.dtype in ("", tensor.dtype)
            and len(self.sizes) == len(tensor.shape)
            and (None in self.sizes) is (tensor.dynamism != FIXED)
            and all(known in (None, size) for known, size in zip(self.sizes, tensor.shape, strict=True))
        )


class OwnProgram(NamedTuple):
    """A program that an ETRecord was made with.

    Attributes:
        methods: by name.
        graphs: what XNNPACK's parts say, by their places.
    """

    methods: Mapping[str, Method]
    graphs: Mapping[Span, XnnpackGraph | None]

    def called(self, method: str, number: int) -> tuple[str, str]:
        """The kind of an instruction, and what it calls; "" for both where the method has no such one."""
        own = self.methods[method]
        if number >= len(own.instructions):
            return "", ""
        return own.instructions[number].kind, own.callee(own.instructions[number])

    def narrowed(self, instruction: MethodInstruction) -> MethodInstruction:
        """An instruction without the nodes that share its debug handle and have another operator."""
        kind, callee = self.called(instruction.method, instruction.number)
        if kind != KERNEL_CALL.name:
            return instruction
        return replace(instruction, nodes=tuple(node for node in instruction.nodes if runs(callee, node)))

    def xnnpack_nodes(self, method: str, number: int) -> Sequence[XnnpackNode]:
        """The nodes that XNNPACK runs in an instruction; none where it doesn't call XNNPACK."""
        instructions = self.methods[method].instructions
        if number >= len(instructions) or instructions[number].kind != DELEGATE_CALL.name:
            return ()
        graph = self.graphs.get(self.methods[method].blobs[instructions[number].target].span)
        return () if graph is None else graph.nodes


def check_own(record: Archive, program: Archive) -> OwnProgram:
    """Check that an ETRecord is a program's own, which is returned.

    Raises:
        ArchiveError: it was made with another one.
    """
    with memory.charged(program.allowance), in_file(program.file):
        read = read_program(program._source.data)  # noqa: SLF001 (the whole file)
        compared = _Comparison(record, read, program._source.data)  # noqa: SLF001 (the same)
        why = compared.contradiction()
    if why:
        raise ArchiveError(f"{why}: it was not made with {program.file}", file=record.file)
    return OwnProgram({method.name: method for method in read.methods}, compared.graphs)


class _Comparison:
    """An ETRecord that is compared with a program.

    Args:
        data: the program's file.
    """

    def __init__(self, record: Archive, program: ExecutorchProgram, data: memoryview) -> None:
        self._record, self._program, self._data = record, program, data
        self._nodes = InstructionNodes(record)
        self._steps = Steps(record.limits.work)
        self.graphs: dict[Span, XnnpackGraph | None] = {}

    def contradiction(self) -> str:
        """What the record has, and the program otherwise, in words; "" for nothing."""
        names = {method.name for method in self._program.methods}
        lacking = [name for name in names if edge_program(name, self._record.programs) is None]
        if lacking:
            return f"the ETRecord has no method {one_line(min(lacking))}"
        more = [name for name in self._record.instructions if name not in names]
        more += [
            name.partition("/")[2]
            for name in self._record.programs
            if name.startswith("edge_dialect_exported_program/") and name.partition("/")[2] not in names
        ]
        if more:
            return f"the ETRecord has a method {one_line(min(more))}, and the program has not"
        every = (self._of_method(method) for method in self._program.methods)
        return next(filter(None, every), "")

    def _of_method(self, method: Method) -> str:
        recorded = self._record.instructions.get(method.name, {})
        last = max(recorded, default=-1)
        if last >= len(method.instructions):
            label = f"{one_line(method.name)}/{ONLY_CHAIN}:{last}"
            return f"the ETRecord has instruction {label}, and the program has not"
        for number, instruction in enumerate(method.instructions):
            found = self._nodes.numbered(number, self._steps, only=method.name)
            why = (
                self._of_instruction(method, instruction, found[0])
                if found
                else self._unrecorded(method, number, instruction)
            )
            if why:
                return f"instruction {one_line(method.name)}/{ONLY_CHAIN}:{number} {why}"
        return ""

    def _unrecorded(self, method: Method, number: int, instruction: Instruction) -> str:
        """What is wrong with an instruction that the record has nothing of."""
        if instruction.kind not in {KERNEL_CALL.name, DELEGATE_CALL.name}:
            return ""
        callee = method.callee(instruction)
        operator = callee if instruction.kind == KERNEL_CALL.name else ""
        if self._nodes.may_lack(method.name, number, operator, self._steps):
            return ""
        return f"calls {one_line(callee)} in the program, and isn't in the ETRecord"

    def _of_instruction(self, method: Method, instruction: Instruction, recorded: MethodInstruction) -> str:
        """What is wrong with an instruction that the record has something of."""
        delegate, callee = recorded.instruction.delegate, method.callee(instruction)
        self._steps.take(len(recorded.nodes) + len(instruction.values))
        if delegate is not None:
            if instruction.kind != DELEGATE_CALL.name or callee != delegate.backend:
                backend = one_line(delegate.backend)
                return f"calls {backend} in the ETRecord, and {_words(instruction, callee)} in the program"
            return self._of_delegate(method, instruction, recorded)
        if not recorded.nodes:
            return ""
        fitting = [
            node for node in recorded.nodes if instruction.kind == KERNEL_CALL.name and runs(callee, node)
        ]
        if not fitting:
            ops = " or ".join(dict.fromkeys(one_line(node.op) for node in recorded.nodes))
            return f"is {ops} in the ETRecord, and {_words(instruction, callee)} in the program"
        tensors = method.tensors_of(instruction)
        if not any(_takes(node, tensors) for node in fitting):
            types = ", ".join(method.type_of(number) for number in instruction.values)
            return f"runs {one_line(callee)} on {types} in the program, and on others in the ETRecord"
        return ""

    def _of_delegate(self, method: Method, instruction: Instruction, recorded: MethodInstruction) -> str:
        """What is wrong with a call of a backend."""
        known = [tensor for node in recorded.nodes for part in _operands(node) for tensor in part]
        self._steps.take(len(known) * len(instruction.values))
        for number in instruction.values:
            tensor = method.tensors.get(number)
            if tensor is not None and known and not any(one.may_be(tensor) for one in known):
                return (
                    f"has {method.type_of(number)} in the program, and no node there has it in the ETRecord"
                )
        blob = method.blobs[instruction.target]
        if blob.backend != xnnpack.BACKEND:
            return ""
        graph = self._graph(blob.span)
        if graph is None:
            return ""
        handles = {node.handle for node in graph.nodes if node.handle is not None}
        if strange := handles - {*recorded.instruction.handles}:
            return f"runs a node with debug handle {min(strange)} in the program only"
        ops = {node.op for node in recorded.nodes if QUANTISES.search(node.op)}
        compared = 1 if any(ANYHOW in op for op in ops) else len(WAYS)
        ways = [any(part.search(op) for op in ops) for part in WAYS]
        for how, one, other in zip(HOW[:compared], graph.quantised, ways, strict=False):
            if one is not other:
                has, lacks = ("program", "ETRecord") if one else ("ETRecord", "program")
                return f"is quantised{how} in the {has}, and not in the {lacks}"
        return ""

    def _graph(self, span: Span) -> XnnpackGraph | None:
        """What XNNPACK's part says, in a stretch of the file."""
        if span not in self.graphs:
            try:
                self.graphs[span] = xnnpack.read_graph(self._data[slice(*span)])
            except ArchiveError as error:
                raise error.within(record=f"XNNPACK's part at byte {span[0]:,}") from None
        return self.graphs[span]


def _words(instruction: Instruction, callee: str) -> str:
    return f"calls {one_line(callee)}" if callee else f"is a {instruction.kind}"


def _takes(node: ProgramNode, tensors: list[ProgramTensor]) -> bool:
    """Whether a node's operator, in its form that writes into arguments, may be called on some tensors."""
    taken, made = _operands(node)
    expected = [*taken, *made, *made]
    return len(expected) == len(tensors) and all(
        one.may_be(tensor) for one, tensor in zip(expected, tensors, strict=True)
    )


def _operands(node: ProgramNode) -> tuple[list[Recorded], list[Recorded]]:
    """The tensors that a node takes, and those that it makes."""
    record = node.site.record or {}
    taken = [
        tensor
        for given in record.get("inputs", ())
        if isinstance(given, dict)
        for tensor in _recorded(node, given.get("arg"))
    ]
    return taken, [tensor for made in record.get("outputs", ()) for tensor in _recorded(node, made)]


def _recorded(node: ProgramNode, value: object) -> Iterator[Recorded]:
    """The tensors of an argument or result: one, some, or none."""
    if not isinstance(value, dict):
        return
    for name in named_values({kind: given for kind, given in value.items() if "tensor" in kind}):
        meta = node.site.tensors.get(name)
        if not isinstance(meta, dict):
            continue
        sizes, dtype = meta.get("sizes"), meta.get("dtype")
        yield Recorded(
            SCALARS.get(dtype, "") if isinstance(dtype, int) else "",
            tuple(map(_number, sizes)) if isinstance(sizes, list) else (),
        )


def _number(size: object) -> int | None:
    number = size.get("as_int") if isinstance(size, dict) else None
    return number if isinstance(number, int) else None
