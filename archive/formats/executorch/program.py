"""Reads the methods of a ``.pte`` and the places of its data; :mod:`.layout` is the specification.

What is checked: each number of a value, operator, backend, instruction, buffer or segment names one that
exists; segments lie in the file and do not overlap; planned tensors lie in their buffers; constants and first
values of mutable tensors lie in their segments, as long as their types and sizes say.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, shown
from archive.base.quick_dataclass import dataclass
from archive.formats.executorch.layout import (
    DELEGATE_CALL,
    DTYPES,
    EXTENDED_HEADER,
    EXTERNAL,
    FREE_CALL,
    HEADER_AT,
    HEADER_MAGIC,
    IDENTIFIER,
    INLINE,
    JUMP_CALL,
    KERNEL_CALL,
    MOVE_CALL,
    PROGRAM,
    SEGMENT,
    SHORTEST_HEADER,
    TENSOR,
)
from archive.formats.schema.flatbuffer_columns import FlatBuffer
from archive.formats.tensors.dtypes import WIDTHS
from archive.formats.tensors.tensor import check_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.formats.schema.flatbuffer import Table
    from archive.formats.schema.flatbuffer_columns import Tables

Span = tuple[int, int]
"""A stretch of the file: its first byte, and the byte after its last."""
VERSION = 0
NONE = "Null"
DYNAMISM = ("fixed", "bounded", "unbounded")


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

    def type_of(self, number: int) -> str:
        """The type of a value: ``Int``, ``float32[3x4]``; ``<=3`` is a size that varies up to 3."""
        tensor = self.tensors.get(number)
        if tensor is None:
            return self.kinds[number]
        most = "" if tensor.dynamism == DYNAMISM[0] else "<="
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


def read_program(data: memoryview) -> ExecutorchProgram:
    """Read a whole program. Elements and blobs are not read."""
    size, base = _extent(data)
    buffer = FlatBuffer(data[:size], IDENTIFIER)
    root = buffer.root(PROGRAM)
    version = int(root.numbers("version")[0])
    if version != VERSION:
        raise ArchiveError(place="Program.version", expected=str(VERSION), found=str(version))
    places = _Places(root, base, len(data))
    _, plans = root.vectors("execution_plan")
    methods = [_Plan(plans.one(number), places).method() for number in range(len(plans))]
    return ExecutorchProgram(methods, (0, size), places.segments, places.named, places.inline)


def _extent(data: memoryview) -> tuple[int, int]:
    """Bytes of the FlatBuffer, and where segments begin; 0 without any."""
    if data[HEADER_AT : HEADER_AT + len(HEADER_MAGIC)] != HEADER_MAGIC:
        return len(data), 0
    header = EXTENDED_HEADER.read(data, HEADER_AT)
    if header.length < SHORTEST_HEADER:
        found = f"{header.length}"
        raise ArchiveError(place="extended header", expected=f"length {SHORTEST_HEADER} or more", found=found)
    size, base = header.program_size, header.segment_base_offset
    if size > len(data) or (base and not size <= base <= len(data)):
        expected = f"{max(size, base):,} bytes, as the extended header says"
        raise ArchiveError("the file is cut short", expected=expected, found=f"{len(data):,}")
    return size, base


class _Places:
    """Where the data of a program is.

    Args:
        root: the program.
        base: where segments begin.
        size: of the file.
    """

    def __init__(self, root: Tables, base: int, size: int) -> None:
        _, declared = root.vectors("segments")
        starts = declared.numbers("offset").tolist()
        sizes = declared.numbers("size").tolist()
        self.segments: list[Span] = []
        end = base
        for number, (start, length) in enumerate(zip(starts, sizes, strict=True)):
            span = base + start, base + start + length
            if length and (not base or span[0] < end or span[1] > size):
                expected = f"bytes from {end:,} to {size:,}" if base else "an extended header"
                found = f"{span[0]:,} to {span[1]:,}"
                raise ArchiveError(place=f"segment {number}", expected=expected, found=found)
            self.segments.append(span)
            end = max(end, span[1])
        self._constants = self._inline(root, "constant_buffer", "storage")
        self._blobs = self._inline(root, "backend_delegate_data", "data")
        self.inline = [span for span in (*self._constants, *self._blobs) if span[0] < span[1]]
        has_constants, constants = root.tables("constant_segment")
        self._constant_offsets = self._offsets(constants) if has_constants[0] else []
        self._mutable_offsets = self._offsets(root.vectors("mutable_data_segments")[1])
        self.named = self._named(root)

    def segment(self, number: int, what: str) -> Span:
        """The segment of a number."""
        if number >= len(self.segments):
            raise ArchiveError(
                place=what, expected=f"one of {len(self.segments)} segments", found=f"{number:,}"
            )
        return self.segments[number]

    def blob(self, location: int, index: int, what: str) -> Span:
        """Where a blob is."""
        if location == SEGMENT:
            return self.segment(index, what)
        if location != INLINE or index >= len(self._blobs):
            raise ArchiveError(
                place=what, expected=f"one of {len(self._blobs)} inline blobs", found=f"{index:,}"
            )
        return self._blobs[index]

    def constant(self, number: int, size: int, what: str) -> Span:
        """Where the elements of a constant are.

        Args:
            size: their bytes.
        """
        if self._constants:
            if number < len(self._constants):
                start, stop = self._constants[number]
                return _within(start, size, stop, what)
        elif self._constant_offsets:
            return self._at(self._constant_offsets[0], number, size, what)
        raise ArchiveError(place=what, expected="a constant that the program has", found=f"{number:,}")

    def first_value(self, which: int, number: int, size: int, what: str) -> Span:
        """Where the elements are that a mutable tensor has at first."""
        if which >= len(self._mutable_offsets):
            expected = f"one of {len(self._mutable_offsets)} segments of mutable data"
            raise ArchiveError(place=what, expected=expected, found=f"{which:,}")
        return self._at(self._mutable_offsets[which], number, size, what)

    def _at(self, offsets: tuple[Span, list[int]], number: int, size: int, what: str) -> Span:
        (start, stop), places = offsets
        if number >= len(places):
            raise ArchiveError(place=what, expected=f"one of {len(places)} tensors", found=f"{number:,}")
        return _within(start + places[number], size, stop, what)

    def _inline(self, root: Tables, name: str, field: str) -> list[Span]:
        """Where the bytes in the FlatBuffer are that a vector of tables has."""
        _, tables = root.vectors(name)
        starts, counts = tables.stretches(field)
        return [*zip(starts.tolist(), (starts + counts).tolist(), strict=True)]

    def _offsets(self, tables: Tables) -> list[tuple[Span, list[int]]]:
        """The segment of each table of offsets, and these."""
        numbers = tables.numbers("segment_index").tolist()
        offsets = tables.number_vectors("offsets").lists()
        return [
            (self.segment(number, "SubsegmentOffsets.segment_index"), places)
            for number, places in zip(numbers, offsets, strict=True)
        ]

    def _named(self, root: Tables) -> dict[str, Span]:
        _, tables = root.vectors("named_data")
        numbers, texts = tables.texts("key")
        segments = tables.numbers("segment_index").tolist()
        named: dict[str, Span] = {}
        for number, index in zip(numbers.tolist(), segments, strict=True):
            key = texts[number] if number >= 0 else ""
            if key in named:
                raise ArchiveError(f"named data {shown(key)} is there twice")
            named[key] = self.segment(index, f"named data {shown(key)}")
        return named


def _within(start: int, size: int, stop: int, what: str) -> Span:
    if start + size > stop:
        found = f"{max(stop - start, 0):,}"
        raise ArchiveError(place=what, expected=f"{size:,} bytes of its data", found=found)
    return start, start + size


class _Plan:
    """A method that is being read.

    Args:
        table: the plan.
    """

    def __init__(self, table: Tables, places: _Places) -> None:
        self._table, self._places = table, places
        self._name = _texts(table, "name")[0]
        self._planned = table.number_vectors("non_const_buffer_sizes").numbers.tolist()

    def method(self) -> Method:
        """The method."""
        kinds, tensors = self._values()
        count = len(kinds)
        inputs, outputs = (
            self._numbered(self._table.number_vectors(name).numbers, count, name)
            for name in ("inputs", "outputs")
        )
        operators, blobs = self._operators(), [*self._blobs()]
        instructions = self._instructions(count, len(operators), len(blobs))
        return Method(
            self._name,
            kinds,
            tensors,
            inputs,
            outputs,
            operators,
            instructions,
            blobs,
            self._planned[1:],
        )

    def _what(self, part: str) -> str:
        return f"method {shown(self._name)}, {part}"

    def _numbered(self, numbers: np.ndarray, count: int, part: str) -> list[int]:
        """Numbers of things of which there are so many."""
        wrong = (numbers < 0) | (numbers >= count)
        if wrong.any():
            found = f"{int(numbers[np.argmax(wrong)]):,}"
            raise ArchiveError(place=self._what(part), expected=f"a number below {count:,}", found=found)
        return numbers.tolist()  # type: ignore[no-any-return]  # numpy has no types for that

    # Values

    def _values(self) -> tuple[list[str], dict[int, ProgramTensor]]:
        _, values = self._table.vectors("values")
        memory.take(memory.ROW * len(values), "values")
        kinds, tensors = [NONE] * len(values), dict[int, ProgramTensor]()
        for table, which, found in values.union("val"):
            for number in which.tolist():
                kinds[number] = table.name
            if table is TENSOR:
                tensors = dict(zip(which.tolist(), self._tensors(which.tolist(), found), strict=True))
        return kinds, tensors

    def _tensors(self, numbers: list[int], tables: Tables) -> Iterator[ProgramTensor]:
        memory.take(4 * memory.ROW * len(tables), "tensors")
        planned, allocation = tables.tables("allocation_info")
        has_more, extra = tables.tables("extra_tensor_info")
        low, high = (allocation.numbers(f"memory_offset_{half}") for half in ("low", "high"))
        memories = _spread(planned, allocation.numbers("memory_id"))
        offsets = _spread(planned, low + (high << 32))
        names = np.full(len(tables), -1)
        names[has_more], texts = extra.texts("fully_qualified_name")
        columns = (
            tables.numbers("scalar_type"),
            tables.numbers("storage_offset"),
            tables.numbers("shape_dynamism"),
            tables.numbers("data_buffer_idx"),
            planned,
            memories,
            offsets,
            names,
            _spread(has_more, extra.numbers("location")),
            _spread(has_more, extra.numbers("mutable_data_segments_idx").astype(np.int64)),
        )
        sizes, orders = (tables.number_vectors(name).lists() for name in ("sizes", "dim_order"))
        rows = zip(numbers, sizes, orders, *(column.tolist() for column in columns), strict=True)
        for (
            number,
            shape,
            order,
            kind,
            start,
            dynamism,
            index,
            is_planned,
            room,
            offset,
            name,
            place,
            of,
        ) in rows:
            what = self._what(f"value {number}")
            dtype, width = self._dtype(kind, what)
            self._check_shape(shape, order, what)
            if start or not 0 <= dynamism < len(DYNAMISM):
                raise ArchiveError(
                    place=what, expected="storage_offset 0 and a kind of sizes", found="others"
                )
            size, is_external, data = width * prod(shape), place == EXTERNAL, None
            if is_planned:
                self._check_room(room, offset, size, what)
            if index and is_planned:
                data = self._places.first_value(of, index, size, what)
            elif index and not is_external:
                data = self._places.constant(index, size, what)
            yield ProgramTensor(
                dtype,
                tuple(shape),
                tuple(order),
                DYNAMISM[dynamism],
                data,
                room if is_planned else 0,
                offset,
                texts[name] if name >= 0 else "",
                is_external,
            )

    def _dtype(self, kind: int, what: str) -> tuple[str, int]:
        dtype = DTYPES.get(kind)
        if dtype is None:
            raise ArchiveError(place=what, expected="a known type of elements", found=f"{kind}")
        return dtype, WIDTHS[dtype]

    def _check_shape(self, shape: list[int], order: list[int], what: str) -> None:
        try:
            check_shape(tuple(shape))
        except ArchiveError as error:
            raise error.within(place=what) from None
        if min(shape, default=0) < 0 or (order and sorted(order) != [*range(len(shape))]):
            found = f"{shown(shape)}, {shown(order)}"
            raise ArchiveError(place=what, expected="sizes, and the order of their dimensions", found=found)

    def _check_room(self, number: int, offset: int, size: int, what: str) -> None:
        """Check that a tensor fits into its buffer of planned memory."""
        room = self._planned[number] if 0 < number < len(self._planned) else 0
        if offset + size > room:
            expected = f"at most {room:,} bytes in buffer {number}"
            raise ArchiveError(place=what, expected=expected, found=f"{offset + size:,}")

    # What runs

    def _operators(self) -> list[str]:
        _, tables = self._table.vectors("operators")
        memory.take(memory.ROW * len(tables), "operators")
        names, overloads = _texts(tables, "name"), _texts(tables, "overload")
        return [f"{name}.{more}" if more else name for name, more in zip(names, overloads, strict=True)]

    def _blobs(self) -> Iterator[Blob]:
        _, tables = self._table.vectors("delegates")
        memory.take(2 * memory.ROW * len(tables), "blobs of backends")
        is_there, references = tables.tables("processed")
        if not is_there.all():
            raise ArchiveError(place=self._what("delegates"), expected="a blob for each", found="none")
        counts, specs = tables.vectors("compile_specs")
        keys, last = _texts(specs, "key"), np.cumsum(counts).tolist()
        columns = references.numbers("location").tolist(), references.numbers("index").tolist()
        rows = zip(_texts(tables, "id"), counts.tolist(), last, *columns, strict=True)
        for backend, count, stop, location, index in rows:
            span = self._places.blob(location, index, self._what(f"backend {shown(backend)}"))
            yield Blob(backend, span, tuple(keys[stop - count : stop]))

    def _instructions(self, values: int, operators: int, blobs: int) -> list[Instruction]:
        _, chains = self._table.vectors("chains")
        if len(chains) != 1:
            raise ArchiveError(place=self._what("chains"), expected="1", found=f"{len(chains)}")
        _, tables = chains.vectors("instructions")
        memory.take(2 * memory.ROW * len(tables), "instructions")
        made = [Instruction(NONE, 0, ())] * len(tables)
        for table, which, found in tables.union("instr_args"):
            part = f"{table.name}s"
            if table in {KERNEL_CALL, DELEGATE_CALL}:
                field, count = ("op_index", operators) if table is KERNEL_CALL else ("delegate_index", blobs)
                targets = self._numbered(found.numbers(field), count, part)
                arguments = found.number_vectors("args")
                self._numbered(arguments.numbers, values, part)
                lists = arguments.lists()
            else:
                names = {MOVE_CALL: ["move_from", "move_to"], JUMP_CALL: ["cond_value_index"]}
                fields = names.get(table, [*FREE_CALL.fields])
                lists = [
                    [*row]
                    for row in zip(
                        *(self._numbered(found.numbers(name), values, part) for name in fields), strict=True
                    )
                ]
                targets = [0] * len(which)
                if table is JUMP_CALL:
                    # A jump to the end is the number of instructions.
                    numbers = found.numbers("destination_instruction")
                    targets = self._numbered(numbers, len(tables) + 1, part)
            for number, target, args in zip(which.tolist(), targets, lists, strict=True):
                made[number] = Instruction(table.name, target, tuple(args))
        return made


def _texts(tables: Tables, name: str) -> list[str]:
    """The text that a field of each table refers to, "" for none."""
    numbers, texts = tables.texts(name)
    return [texts[number] if number >= 0 else "" for number in numbers.tolist()]


def _spread(is_there: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """A number for each table: that of the ones that have it, 0 for others."""
    spread = np.zeros(len(is_there), np.int64)
    spread[is_there] = numbers
    return spread
