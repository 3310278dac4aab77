"""Reads the methods of a ``.pte`` and the places of its data; :mod:`.layout` is the specification.

What is checked: each number of a value, operator, backend, instruction, buffer or segment names one that
exists; segments lie in the file and do not overlap; planned tensors lie in their buffers; constants and first
values of mutable tensors lie in their segments, as long as their types and sizes say.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, shown
from archive.formats.executorch.layout import (
    DELEGATE_CALL,
    DTYPES,
    EXTENDED_HEADER,
    EXTERNAL,
    FREE_CALL,
    HEADER_AT,
    HEADER_MAGIC,
    IDENTIFIER,
    JUMP_CALL,
    KERNEL_CALL,
    MOVE_CALL,
    OPTIONAL_TENSOR_LIST,
    PROGRAM,
    SHORTEST_HEADER,
    TENSOR,
    TENSOR_LIST,
)
from archive.formats.executorch.model import (
    DYNAMISM,
    Blob,
    ExecutorchProgram,
    Instruction,
    Method,
    ProgramTensor,
)
from archive.formats.executorch.places import Places
from archive.formats.schema.flatbuffer_columns import FlatBuffer
from archive.formats.tensors.dtypes import WIDTHS
from archive.formats.tensors.tensor import check_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.schema.flatbuffer_columns import Tables

VERSION = 0
NONE = "Null"
NO_VALUE = -1
"""In an ``OptionalTensorList``."""


def read_program(data: memoryview) -> ExecutorchProgram:
    """Read a whole program. Elements and blobs are not read."""
    size, base = _extent(data)
    root = program_root(data)
    version = int(root.numbers("version")[0])
    if version != VERSION:
        raise ArchiveError(place="Program.version", expected=str(VERSION), found=str(version))
    places = Places(root, base, len(data))
    _, plans = root.vectors("execution_plan")
    methods = [_Plan(plans.one(number), places).method() for number in range(len(plans))]
    for name, count in Counter(method.name for method in methods).items():
        if count > 1:
            raise ArchiveError(f"method {shown(name)} is there {count} times")
    return ExecutorchProgram(methods, (0, size), places.segments, places.named, places.inline)


def program_root(data: memoryview) -> Tables:
    """The root table of a program."""
    size, _ = _extent(data)
    return FlatBuffer(data[:size], IDENTIFIER).root(PROGRAM)


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


class _Plan:
    """A method that is being read.

    Args:
        table: the plan.
    """

    def __init__(self, table: Tables, places: Places) -> None:
        self._table, self._places = table, places
        self._name = _texts(table, "name")[0]
        self._planned = table.number_vectors("non_const_buffer_sizes").numbers.tolist()

    def method(self) -> Method:
        """The method."""
        kinds, tensors, lists = self._values()
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
            lists,
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
        """Numbers of things, each below their count."""
        wrong = (numbers < 0) | (numbers >= count)
        if wrong.any():
            found = f"{int(numbers[np.argmax(wrong)]):,}"
            raise ArchiveError(place=self._what(part), expected=f"a number below {count:,}", found=found)
        return numbers.tolist()  # type: ignore[no-any-return]  # numpy has no types for that

    # Values

    def _values(self) -> tuple[list[str], dict[int, ProgramTensor], dict[int, tuple[int, ...]]]:
        _, values = self._table.vectors("values")
        memory.take(memory.ROW * len(values), "values")
        kinds, tensors = [NONE] * len(values), dict[int, ProgramTensor]()
        lists = dict[int, tuple[int, ...]]()
        for table, which, found in values.union("val"):
            for number in which.tolist():
                kinds[number] = table.name
            if table is TENSOR:
                tensors = dict(zip(which.tolist(), self._tensors(which.tolist(), found), strict=True))
            elif table in {TENSOR_LIST, OPTIONAL_TENSOR_LIST}:
                items, part = found.number_vectors("items"), f"{table.name}s"
                is_there = items.numbers != NO_VALUE if table is OPTIONAL_TENSOR_LIST else slice(None)
                self._numbered(items.numbers[is_there], len(values), part)
                memory.take(memory.ROW * len(found), part)
                lists |= zip(which.tolist(), map(tuple, items.lists()), strict=True)
        return kinds, tensors, lists

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
