"""Programs of ExecuTorch among the fixtures, and changes in them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.formats.executorch import xnnpack
from archive.formats.executorch.layout import IDENTIFIER, PROGRAM
from archive.formats.executorch.program import read_program
from archive.formats.schema.flatbuffer_columns import FlatBuffer, Tables
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from archive.base.limits import Limits
    from archive.formats.executorch.model import ExecutorchProgram

XNNPACK_FLATBUFFER = 32
"""Where the FlatBuffer of XNNPACK's parts of the fixtures begins."""
PROGRAMS = sorted(path.stem for path in (FIXTURES / "executorch").glob("*.pte"))


def program_file(name: str) -> Path:
    """A program."""
    return FIXTURES / "executorch" / f"{name}.pte"


def parsed(data: bytes, limits: Limits = DEFAULT_LIMITS) -> ExecutorchProgram:
    """A program as it is read within the limits."""
    with memory.charged(limits.allowance(len(data))):
        return read_program(memoryview(data))


def with_number(data: bytes, path: str, number: int) -> bytes:
    """A program in which one number is another: ``execution_plan 0 values 3 val data_buffer_idx``.

    Args:
        path: of fields of tables, and of numbers of elements; the last is a field, or an element of a vector.
    """
    buffer = FlatBuffer(memoryview(data), IDENTIFIER)
    with memory.charged(DEFAULT_LIMITS.allowance(len(data))):
        place, form = _place(buffer.root(PROGRAM), path.split())
    if not place:
        raise ValueError(f"{path} has its default, which is not stored")
    changed = bytearray(data)
    struct.pack_into(form, changed, place, number)
    return bytes(changed)


def with_length(data: bytes, path: str, length: int) -> bytes:
    """A program in which a vector of tables says that it has another length."""
    buffer = FlatBuffer(memoryview(data), IDENTIFIER)
    *outer, name = path.split()
    with memory.charged(DEFAULT_LIMITS.allowance(len(data))):
        table = buffer.root(PROGRAM)
        for vector, number in zip(outer[::2], outer[1::2], strict=True):
            table = table.vectors(vector)[1].one(int(number))
        place = int(table.references(name)[0])
    changed = bytearray(data)
    struct.pack_into("<I", changed, place, length)
    return bytes(changed)


def with_xnnpacks(data: bytes, part: int, name: str, number: int) -> bytes:
    """A program in which each node of a part of XNNPACK's, or each quantised value, has another number.

    Args:
        part: its number among the blobs of the first method.
        name: ``debug_handle`` or ``datatype``.
    """
    start = parsed(data).methods[0].blobs[part].span[0] + XNNPACK_FLATBUFFER
    with memory.charged(DEFAULT_LIMITS.allowance(len(data))):
        graph = FlatBuffer(memoryview(data)[start:], xnnpack.IDENTIFIERS[-1]).root(xnnpack.GRAPH)
        tables = graph.vectors("xnodes")[1]
        for declared, _, values in graph.vectors("xvalues")[1].union("xvalue_union"):
            if declared is xnnpack.QUANTISED and name == "datatype":
                tables = values.tables("tensor_value")[1]
        places = tables._fields(name)
    changed = bytearray(data)
    for place in places.tolist():
        struct.pack_into("<I" if name == "debug_handle" else "<h", changed, start + place, number)
    return bytes(changed)


def _place(table: Tables, path: list[str]) -> tuple[int, str]:
    """Where a number is, and its form for :mod:`struct`."""
    name, *rest = path
    if not rest:
        form = {"u1": "B", "i1": "b", "u2": "H", "u4": "I", "i4": "i", "u8": "Q", "i8": "q"}
        return int(table._fields(name)[0]), "<" + form[table._declared.fields[name].type[1:]]
    if rest[0].isdecimal() and len(rest) == 1:
        vector = table.number_vectors(name)
        item = table._declared.fields[name].item.item
        return int(vector.starts[0]) + item.length * int(rest[0]), item.fmtstr
    if rest[0].isdecimal():
        return _place(table.vectors(name)[1].one(int(rest[0])), rest[1:])
    if name in {"val", "instr_args"}:
        ((_, _, found),) = table.union(name)
        return _place(found, rest)
    return _place(table.tables(name)[1], rest)
