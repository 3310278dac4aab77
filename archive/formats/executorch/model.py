"""What a ``.pte`` is: methods with their values and instructions, and the places of its data."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from archive.base.quick_dataclass import dataclass
from archive.formats.executorch.layout import DELEGATE_CALL, KERNEL_CALL
from archive.formats.tensors.dtypes import WIDTHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.formats.schema.flatbuffer import Table

Span = tuple[int, int]
"""A stretch of the file: its first byte, and the byte after its last."""
FIXED = "fixed"
DYNAMISM = (FIXED, "bounded", "unbounded")


class ProgramTensor(NamedTuple):
    """A tensor among a method's values.

    Attributes:
        dtype: as PyTorch names it.
        shape: the largest sizes, where they vary.
        order: its dimensions from the outermost to the innermost in memory.
        dynamism: whether its sizes are fixed, bounded or unbounded.
        data: where its elements are in the file, at first if it is mutable; None if they aren't there.
        buffer: the method's buffer that it is planned in, from 1 on; 0 for none.
        offset: in that buffer.
        name: of the parameter or buffer; "" if the file does not say.
        is_external: whether its elements are in a file beside the program.
    """

    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    dynamism: str
    data: Span | None
    buffer: int
    offset: int
    name: str
    is_external: bool

    @property
    def bytes(self) -> int:
        """Of its elements."""
        return WIDTHS[self.dtype] * prod(self.shape)


class Instruction(NamedTuple):
    """An instruction.

    Attributes:
        kind: the name of its table: ``KernelCall``.
        target: the number of its operator or backend; of a jump the instruction; else 0.
        values: the numbers of the values that it takes and makes.
    """

    kind: str
    target: int
    values: tuple[int, ...]


class Blob(NamedTuple):
    """What a backend made of its part of a method.

    Attributes:
        backend: its id: ``XnnpackBackend``.
        span: where it is.
        specs: the keys of its compile specs.
    """

    backend: str
    span: Span
    specs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a program.

    Attributes:
        name: of the method.
        kinds: of its values: ``Tensor``, ``Int``; ``Null`` for none.
        tensors: by the numbers of their values.
        lists: of tensors, by the numbers of their values: the numbers in them, -1 for none.
        inputs: numbers of values.
        outputs: numbers of values.
        operators: ``aten::add.out``, each once.
        instructions: in the order of the chain.
        blobs: what it calls of backends.
        planned: bytes of each buffer of planned memory, from the first on.
    """

    name: str
    kinds: Sequence[str]
    tensors: Mapping[int, ProgramTensor]
    lists: Mapping[int, Sequence[int]]
    inputs: Sequence[int]
    outputs: Sequence[int]
    operators: Sequence[str]
    instructions: Sequence[Instruction]
    blobs: Sequence[Blob]
    planned: Sequence[int]

    @property
    def operator_calls(self) -> Mapping[str, int]:
        """How often each operator is called."""
        return Counter(self.operators[each.target] for each in self._calls(KERNEL_CALL))

    @property
    def backend_calls(self) -> Mapping[str, int]:
        """How often each backend is called."""
        return Counter(self.blobs[each.target].backend for each in self._calls(DELEGATE_CALL))

    def _calls(self, table: Table) -> Iterator[Instruction]:
        return (each for each in self.instructions if each.kind == table.name)

    def callee(self, instruction: Instruction) -> str:
        """The operator or backend that an instruction calls; "" of one that calls nothing."""
        if instruction.kind == KERNEL_CALL.name:
            return self.operators[instruction.target]
        return self.blobs[instruction.target].backend if instruction.kind == DELEGATE_CALL.name else ""

    def tensors_of(self, instruction: Instruction) -> list[ProgramTensor]:
        """The tensors that an instruction takes and makes, those in lists, too."""
        numbers = (one for number in instruction.values for one in self.lists.get(number, (number,)))
        return [self.tensors[number] for number in numbers if number in self.tensors]

    def type_of(self, number: int) -> str:
        """The type of a value: ``Int``, ``float32[3x4]``; ``<=3`` is a size that varies up to 3."""
        tensor = self.tensors.get(number)
        if tensor is None:
            return self.kinds[number]
        most = "" if tensor.dynamism == FIXED else "<="
        return f"{tensor.dtype}[{'x'.join(f'{most}{size}' for size in tensor.shape)}]"


@dataclass(frozen=True, slots=True)
class ExecutorchProgram:
    """A program of ExecuTorch.

    Attributes:
        methods: in the order of the file.
        flatbuffer: where the FlatBuffer is.
        segments: where they are.
        named: where the named data is, by key.
        inline: where constants and blobs in the FlatBuffer are.
    """

    methods: Sequence[Method]
    flatbuffer: Span
    segments: Sequence[Span]
    named: Mapping[str, Span]
    inline: Sequence[Span]
