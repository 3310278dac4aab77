"""FlatBuffers: tables are declared once, and read one by one, and as columns, to the same values."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

import pytest
from construct import Int8ul, Int32sl, Int32ul
from hypothesis import given
from hypothesis import strategies as st

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.formats.etdump import ETDUMP, IDENTIFIER
from archive.formats.schema.flatbuffer import Table, Text, Unread, Vector, parse, tree
from archive.formats.schema.flatbuffer_columns import FlatBuffer, Tables
from tests.support.corpus import FIXTURES
from tests.support.cost import loops_below
from tests.support.etdumps import BLOCKS, Block, Event, Value, built, dump

if TYPE_CHECKING:
    from construct import Container

SOME = [Block([Event("OPERATOR_CALL", 0, 3, 1, 2), Event(None, 0, 3, 1, 2, text="x")]), Block([], None)]
DUMP = built(SOME)
ONE_EVENT = built([Block([Event("OPERATOR_CALL", 0, 0, 1, 2)])])
VECTORS = ("run_data", "events", "tensors", "sizes", "strides")
REFUSALS = (
    r"byte 4: expected b'ED00', found .*|the file is cut short: .*"
    r"|(?:byte -?\d+: )?expected (?:the (?:vtable|length) of )?(?:[A-Z]\w+(?:\.\w+)?|the root's reference)"
    r" (?:in its table|within \d+ bytes(?:, found [\d,]+)?)|[A-Z]\w+\.\w+ share bytes"
)
"""How both refuse a file: each names the table, or the field of one."""


def parsed(data: bytes, root: Table = ETDUMP, limits: Limits = DEFAULT_LIMITS) -> Container:
    with memory.charged(limits.allowance(len(data))):
        return parse(root, memoryview(data), IDENTIFIER)


def columns(data: bytes, root: Table = ETDUMP) -> Tables:
    return FlatBuffer(memoryview(data), IDENTIFIER).root(root)


def as_rows(tables: Tables, declared: Table) -> list[dict[str, Any]]:
    """The rows of columns, by the declaration alone."""
    fields = {name: as_column(tables, name, declared) for name in declared.fields}
    return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]


def as_column(tables: Tables, name: str, declared: Table) -> list[Any]:
    """One column as Python objects."""
    item = declared.fields[name].item
    if item is Text:
        which, distinct = tables.texts(name)
        return [distinct[number] if number >= 0 else None for number in which.tolist()]
    if isinstance(item, Table):
        is_there, inner = tables.tables(name)
        rows = iter(as_rows(inner, item))
        return [next(rows) if there else None for there in is_there.tolist()]
    if isinstance(item, Vector) and isinstance(item.item, Table):
        counts, inner = tables.vectors(name)
        rows = iter(as_rows(inner, item.item))
        return [[next(rows) for _ in range(count)] for count in counts.tolist()]
    if isinstance(item, Vector):
        return [*tables.number_vectors(name).lists()]
    if isinstance(item, Unread):
        return [place or None for place in tables.references(name).tolist()]
    return list(tables.numbers(name).tolist())


def plain(value: object) -> object:
    """What construct read, as columns give it: no vector is an empty one."""
    if isinstance(value, dict):
        return {key: [] if one is None and key in VECTORS else plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


@given(blocks=BLOCKS)
def test_what_is_built_is_parsed_by_construct_and_read_as_columns(blocks: list[Block]) -> None:
    data = built(blocks)
    root = parsed(data)
    assert [plain(root)] == as_rows(columns(data), ETDUMP)
    assert [(run.name or None, run.bundled_input_index) for run in root.run_data] == [
        (block.name or None, block.input) for block in blocks
    ]
    for run, block in zip(root.run_data, blocks, strict=True):
        for event, given_event in zip(run.events, block.events, strict=True):
            if isinstance(given_event, Value):
                assert event.debug_event.instruction_id == given_event.instruction
                continue
            timed = event.profile_event
            assert (timed.name, timed.chain_index, timed.instruction_id) == given_event[:3]
            assert (timed.start_time, timed.end_time) == given_event[3:5]
            assert (timed.delegate_debug_id_int, timed.delegate_debug_id_str) == given_event[5:]


def test_dumps_of_the_runtime_are_read_the_same_by_both() -> None:
    data = dump("region").read_bytes()
    root = parsed(data)
    assert sum(len(run.events) for run in root.run_data) > 10
    assert as_rows(columns(data), ETDUMP) == [plain(root)]


# What PyTorch's schema/program.fbs declares of a program: numbers, vectors of them, a union of two fields.
INSTRUCTION = Table(
    "Instruction", "instr_args_type" / Int8ul * "which table", "instr_args" / Unread("InstructionArguments")
)
CHAIN = Table("Chain", "inputs" / Vector(Int32sl), "outputs" / Vector(Int32sl), "code" / Vector(INSTRUCTION))
PLAN = Table(
    "ExecutionPlan",
    "name" / Text * "of the method",
    "container_meta_type" / Unread("ContainerMetadata"),
    "values" / Vector(Unread("EValue")),
    "inputs" / Vector(Int32sl) * "numbers of values",
    "outputs" / Vector(Int32sl),
    "chains" / Vector(CHAIN),
    "operators" / Vector(Table("Operator", "name" / Text, "overload" / Text)),
)
PROGRAM = Table("Program", "version" / Int32ul, "execution_plan" / Vector(PLAN))


def test_the_schema_of_programs_can_be_declared() -> None:
    data = (FIXTURES / "kinds" / "program.pte").read_bytes()
    program = parse(PROGRAM, memoryview(data), b"ET12")
    (plan,) = program.execution_plan
    assert (program.version, plan.name) == (0, "forward")
    assert [one.name for one in plan.operators] == ["aten::mm", "aten::add", "aten::mul"]
    assert {one.overload for one in plan.operators} == {"out"}
    (chain,) = plan.chains
    kernel_call = 1
    assert [one.instr_args_type for one in chain.code] == [kernel_call] * 3
    assert set(plan.inputs + plan.outputs) < set(range(len(plan["values"])))


def test_a_declaration_is_a_tree_with_docs() -> None:
    assert tree(PROGRAM)[:6] == [
        "Program",
        "  version: uint",
        "  execution_plan: [ExecutionPlan]",
        "    name: string    of the method",
        "    container_meta_type: ContainerMetadata",
        "    values: [EValue]",
    ]
    assert "        instruction_id: int = -1    its number in the chain" in tree(ETDUMP)


def refused_or_read(data: bytes) -> tuple[object, object]:
    """What construct and the columns make of a file: values, or that it is refused in the words of both."""
    read: list[object] = []
    for reader in (lambda: [plain(parsed(data))], lambda: as_rows(columns(data), ETDUMP)):
        try:
            read.append(reader())
        except ArchiveError as error:
            if not re.fullmatch(REFUSALS, str(error)):
                raise
            read.append(ArchiveError)
    one, many = read
    return one, many


def test_a_file_cut_anywhere_is_refused_by_both_with_the_table_and_field() -> None:
    whole = refused_or_read(DUMP)[0]
    for length in range(len(DUMP)):
        one, many = refused_or_read(DUMP[:length])
        assert one is many is ArchiveError
        one, many = refused_or_read(DUMP[4:length])
        assert one == many or ArchiveError in (one, many)
        assert one in (ArchiveError, whole) or length > len(DUMP) - 4


@pytest.mark.parametrize(
    "other", [(6, 8, 6), (6, 8, 3), (6, 7, 4), (6, 3, 4), (6, 60_000, 4), (3, 8, 4), (60_000, 8, 4)]
)
def test_a_vtable_that_lies_is_refused_by_both_in_the_same_words(other: tuple[int, int, int]) -> None:
    vtable, lie = struct.pack("<3H", 6, 8, 4), struct.pack("<3H", *other)
    assert vtable in ONE_EVENT
    data = ONE_EVENT.replace(vtable, lie)
    with pytest.raises(ArchiveError) as one:
        parsed(data)
    with pytest.raises(ArchiveError) as many:
        as_rows(columns(data), ETDUMP)
    assert str(one.value) == str(many.value)


@given(at=st.integers(12, len(DUMP) - 4), other=st.binary(min_size=1, max_size=8))
def test_other_bytes_anywhere_are_refused_or_read_the_same_by_both(at: int, other: bytes) -> None:
    one, many = refused_or_read(DUMP[:at] + other + DUMP[at + len(other) :])
    assert one == many


@given(other=st.binary(max_size=200))
def test_random_bytes_are_refused_or_read_the_same_by_both(other: bytes) -> None:
    one, many = refused_or_read(b"\x08\0\0\0ED00" + other)
    assert one == many


def test_elements_and_memory_are_bounded_before_they_are_made() -> None:
    call = Event("OPERATOR_CALL", 0, 0, 1, 2)
    many = built([Block([call] * 2_000)] * 2_000)  # which share one vector
    why = r"expected RunData\.events within 16,\d+ bytes, found 2,000"
    with loops_below(100), pytest.raises(ArchiveError, match=why):
        parsed(many)
    with pytest.raises(LimitError, match=r"name_bytes is limited to 4,096, found 5,000 with RunData\.name"):
        parsed(built([Block([], "n" * 5_000)]))
    with pytest.raises(LimitError, match="memory is limited to 1,000"):
        parsed(DUMP, limits=Limits(memory=1_000))
