"""``.pte`` files are read as ExecuTorch's own reader does, and each verb accounts for all of their bytes."""

from __future__ import annotations

import hashlib
import json
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from construct import FormatField, Int32sl
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive import ArchiveError
from archive.base.errors import LimitError
from archive.base.limits import Limits, Steps
from archive.compare.executorch import APART
from archive.compare.sameness import Level
from archive.describe.tensor_listing import listed_tensors
from archive.formats.executorch.frames import read_frames
from archive.formats.executorch.layout import HEADER_AT, SHORTEST_HEADER
from archive.formats.executorch.program import program_root
from archive.formats.exported.traces import build_trace
from archive.formats.record_kinds import Group
from archive.formats.schema.flatbuffer import Table, Text, Union, Vector
from archive.formats.schema.flatbuffer_columns import FlatBuffer
from archive.formats.tensor_files.executorch import strides
from archive.reader.lookups.instructions import InstructionNodes
from tests.support.commands import called, well
from tests.support.executorch import PROGRAMS, parsed, program_file, with_length, with_number
from tests.support.tensor_files import bytes_of, labels_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive.formats.executorch.model import Method
    from archive.formats.schema.flatbuffer_columns import Tables

SHOP, XNNPACK = program_file("shop").read_bytes(), program_file("xnnpack").read_bytes()
PLAN = "execution_plan 0"


def oracle(name: str) -> dict[str, Any]:
    """What ExecuTorch's reader says of a program."""
    facts: dict[str, Any] = json.loads(program_file(name).with_suffix(".pte.json").read_text("utf-8"))
    return facts


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def as_oracle(method: Method, data: bytes) -> dict[str, Any]:
    """A method in the oracle's words, without the bytes of elements."""
    return {
        "name": method.name,
        "kinds": [*method.kinds],
        "inputs": method.inputs,
        "outputs": method.outputs,
        "operators": [*method.operators],
        "instructions": [
            [one.kind, *values(one.kind, one.target, one.values)] for one in method.instructions
        ],
        "backends": [[blob.backend, sha256(data[slice(*blob.span)])] for blob in method.blobs],
        "planned": [0, *method.planned],
    }


def values(kind: str, target: int, args: tuple[int, ...]) -> list[Any]:
    """The fields of an instruction's table."""
    if kind in {"KernelCall", "DelegateCall"}:
        return [target, [*args]]
    return [*args, target] if kind == "JumpFalseCall" else [*args]


@pytest.mark.parametrize("name", PROGRAMS)
def test_methods_are_those_that_executorchs_reader_finds(name: str) -> None:
    data = program_file(name).read_bytes()
    program, expected = parsed(data), oracle(name)
    for method, one in zip(program.methods, expected["methods"], strict=True):
        tensors = one.pop("tensors")
        one["operators"] = [".".join(filter(None, parts)) for parts in one["operators"]]
        assert as_oracle(method, data) == one
        assert set(method.tensors) == set(map(int, tensors))
        for number, tensor in method.tensors.items():
            facts = tensors[str(number)]
            assert [*tensor.shape] == facts["sizes"]
            assert [*tensor.order] == facts["order"]
            assert tensor.name == facts["name"]
            place = [tensor.buffer, tensor.offset] if tensor.buffer else None
            assert place == facts["planned"]
            assert (tensor.data is None) == (facts["elements"] is None)
    assert {key: sha256(data[slice(*span)]) for key, span in program.named.items()} == expected["named"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_are_those_that_executorchs_reader_finds(name: str) -> None:
    data = program_file(name).read_bytes()
    for method, one in zip(parsed(data).methods, oracle(name)["methods"], strict=True):
        for number, tensor in method.tensors.items():
            if tensor.data is not None:
                # The reader gives elements with the padding after them, which is zeros.
                padded = (sha256(data[slice(*tensor.data)] + bytes(more)) for more in range(64))
                assert one["tensors"][str(number)]["elements"] in padded


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_byte_belongs_to_one_record_or_is_padding(name: str) -> None:
    path = program_file(name)
    for labels in labels_of(path):
        assert sum(labels.values()) == path.stat().st_size
        assert min(labels.values()) >= 0


def test_a_mutable_buffer_has_its_name_and_first_value() -> None:
    with archive.open(program_file("mutated"), kinds={archive.FileKind.EXECUTORCH}) as opened:
        assert struct.unpack("<3f", bytes_of(opened, "total")) == (0, 1, 2)
        others = [name for name in opened.tensors if name != "total"]
        assert [struct.unpack("<3f", bytes_of(opened, name)) for name in others] == [(0.5, 0.5, 0.5)]


def test_inspect_lists_methods_with_what_they_take_return_and_call() -> None:
    listing = listed_tensors(program_file("sized"))
    (method,) = listing.executorch_methods.values()
    assert method.inputs == ["float32[<=4x<=2]"] * 2
    listing = listed_tensors(program_file("xnnpack"))
    (method,) = listing.executorch_methods.values()
    assert method.backends == {"XnnpackBackend": 2}
    assert sum(method.operators.values()) + 2 == method.instructions
    assert [*listed_tensors(program_file("methods")).executorch_methods] == ["forward", "later", "words"]
    framed = listed_tensors(program_file("framed")).executorch_methods["forward"]
    assert (method.framed, framed.framed) == (0, framed.instructions)


def test_strides_follow_the_order_of_dimensions() -> None:
    (method,) = parsed(SHOP).methods
    tensor = method.tensors[0]._replace(shape=(2, 3, 4), order=(0, 2, 1))
    assert strides(tensor) == (12, 1, 3)


def test_two_programs_differ_method_by_method() -> None:
    rows = {
        (row.what, row.name): row
        for row in archive.diff(program_file("xnnpack"), program_file("quantised")).changes
    }
    assert rows["planned bytes", "forward"].old == "192"
    calls = rows["calls", "forward: aten::embedding.out"]
    assert (calls.old, calls.new) == ("0", "1")
    assert ("calls", "forward: XnnpackBackend") not in rows  # both call it twice
    assert "named data" in {what for what, _ in rows}
    assert ("method", "words") in {
        (row.what, row.name) for row in archive.diff(program_file("methods"), program_file("shop")).changes
    }
    assert archive.diff(program_file("shop"), program_file("shop")).identical


def test_frames_are_not_of_the_model() -> None:
    """The frames of instructions move everything in the FlatBuffer, and change nothing that runs.

    Both files are of one model, but for its weights.
    """
    rows = archive.diff(program_file("shop"), program_file("framed")).changes
    assert {(row.what, row.name) for row in rows if row.what != "tensor"} == {
        ("frames", "frames"),
        ("record", "program"),
    }
    shop, framed = (archive.digest(program_file(name)).parts for name in ("shop", "framed"))
    assert shop["program"] == framed["program"]
    assert shop.keys() == framed.keys()
    assert Level.MODEL not in {row.level for row in rows if row.what != "tensor"}


@pytest.mark.parametrize("name", ["attention", "fork", "mutated", "twice"])
def test_each_declared_byte_of_the_graph_counts(name: str) -> None:
    """A changed byte of a number, of a vector of numbers or of a string is refused, or is another graph."""
    data = program_file(name).read_bytes()
    graph = said(data)
    places = sorted(set(declared_bytes(program_root(memoryview(data)))))
    assert len(places) > 250
    for place in places[:: -(-len(places) // 100)]:
        changed = bytearray(data)
        changed[place] ^= 1
        with suppress(ArchiveError):
            assert said(bytes(changed)) != graph, place


def test_a_field_that_is_not_declared_makes_all_bytes_count() -> None:
    vtable = struct.pack("<HHHH", 8, 12, 4, 8)
    table = struct.pack("<iii", len(vtable), 7, 1)
    data = memoryview(struct.pack("<I4s", 16, b"TEST") + vtable + table)
    x, y = "x" / Int32sl, "y" / Int32sl
    for fields, wanted in [((x, y), []), ((x,), [data])]:
        *all_bytes, number = list(
            FlatBuffer(data, b"TEST").root(Table("Point", *fields)).content(["Point.y"])
        )
        assert (all_bytes, number) == (wanted, struct.pack("<q", 7))


def said(data: bytes) -> str:
    """The digest of what a program's graph says."""
    pieces = program_root(memoryview(data)).content(APART)
    return hashlib.sha256(b"".join(map(bytes, pieces))).hexdigest()


def declared_bytes(tables: Tables) -> Iterator[int]:
    """The places of all numbers and strings in some tables and in those that they refer to."""
    name = tables._declared.name
    for field, declared in tables._declared.fields.items():
        item = declared.item
        if f"{name}.{field}" in APART or field.endswith("_type"):
            continue
        if isinstance(item, FormatField):
            at = tables._fields(field)
            spans = [(place, place + declared.size) for place in at.tolist() if place]
        elif item is Text:
            at = tables.references(field)
            lengths = tables._buffer.numbers(at[at != 0], "<u4", field)
            spans = [
                (place + 4, place + 4 + length)
                for place, length in zip(at[at != 0].tolist(), lengths.tolist(), strict=True)
            ]
        elif isinstance(item, Union):
            for _, _, inner in tables.union(field):
                yield from declared_bytes(inner)
            continue
        elif isinstance(item, Vector) and isinstance(item.item, FormatField):
            starts, counts, _ = tables.number_vectors(field)
            sizes = (counts * item.item.length).tolist()
            spans = [
                (start, start + size) for start, size in zip(starts.tolist(), sizes, strict=True) if size
            ]
        else:
            _, inner = tables.vectors(field) if isinstance(item, Vector) else tables.tables(field)
            yield from declared_bytes(inner)
            continue
        for span in spans:
            yield from range(*span)


def test_each_program_has_a_digest_of_its_own() -> None:
    digests = {archive.digest(program_file(name)).value for name in PROGRAMS}
    assert len(digests) == len(PROGRAMS)


def test_frames_are_found_as_leaks() -> None:
    result = called("leaks", program_file("framed"))
    assert "source text" in result.stdout
    assert "emit_stacktrace" in result.stdout
    assert "nothing found" in called("leaks", program_file("shop")).stdout


def test_frames_are_debug_info_and_the_rest_is_as_without_them() -> None:
    plain, framed = (
        {piece.record: piece for piece in archive.sizes(program_file(name)).pieces if piece.record}
        for name in ("shop", "framed")
    )
    assert "frames" not in plain
    assert (framed["frames"].group, framed["program"].group) == (Group.DEBUG, Group.CODE)
    reference = 4  # from the chain to its frames
    assert framed["program"].stored == plain["program"].stored + reference
    with archive.open(program_file("framed"), kinds={archive.FileKind.EXECUTORCH}) as opened:
        program, frames = (bytes(opened.records[name].view()) for name in ("program", "frames"))
    for method in read_frames(memoryview(program_file("framed").read_bytes())).values():
        for number in range(len(method.counts)):
            trace = method.trace(number)
            for frame in trace.frames if trace else ():
                for text in (frame.file.encode(), (frame.code or "").encode()):
                    assert text in frames
                    assert text not in program


def test_stretches_of_a_program_are_no_texts(tmp_path: Path) -> None:
    called("leaks", program_file("framed"), "--review", tmp_path / "review.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "review.jsonl").read_text("utf-8").splitlines()[1:]]
    assert "b = self.price(self.goods(second))" in {row["text"] for row in rows}
    assert not any("\0" in row["text"] for row in rows)


def test_frames_are_those_of_the_record() -> None:
    """Each instruction's frames are the trace of a node that the ETRecord of the same model has there."""
    frames = read_frames(memoryview(program_file("framed").read_bytes()))["forward"]
    with archive.open(program_file("shop").with_suffix(".etrecord")) as record:
        instructions = InstructionNodes(record)
        for number in record.instructions["forward"]:
            trace = frames.trace(number)
            assert trace is not None
            (found,) = instructions.numbered(number, Steps(1 << 20))
            assert build_trace(trace) in {node.site.trace for node in found.nodes}
    assert frames.framed == len(frames.counts) == 32


def test_symbolicate_prints_the_frames_of_an_instruction() -> None:
    shown = well("symbolicate", program_file("framed"), "0:14")
    with_record = well("symbolicate", program_file("shop").with_suffix(".etrecord"), "0:14")
    assert shown.split("\n")[0] == "aten::embedding.out"
    assert shown.split("\n")[1:] == with_record.split("\n")[1:]


def test_symbolicate_names_the_record_where_a_program_has_no_frames() -> None:
    result = called("symbolicate", program_file("shop"), "0:14")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "emit_stacktrace writes; the ETRecord that was made with it has the source" in result.stderr
    assert "no instruction 'later/0:14'" in called("symbolicate", program_file("shop"), "later/0:14").stderr


def test_more_frames_than_instructions_are_refused() -> None:
    framed = program_file("framed").read_bytes()
    instructions = len(parsed(framed).methods[0].instructions)
    more = with_length(framed, f"{PLAN} chains 0 instructions", instructions - 1)
    with pytest.raises(ArchiveError, match="expected at most 31, one for each instruction, found 32"):
        read_frames(memoryview(more))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_executorch_are_well(name: str) -> None:
    assert archive.verify(program_file(name)) == []


LIES = {
    f"{PLAN} inputs 0": "expected a number below",
    f"{PLAN} outputs 1": "expected a number below",
    f"{PLAN} chains 0 instructions 1 instr_args op_index": "expected a number below",
    f"{PLAN} chains 0 instructions 0 instr_args args 0": "expected a number below",
    f"{PLAN} values 0 val data_buffer_idx": "expected one of",
    f"{PLAN} values 0 val sizes 0": "bytes of its data",
    f"{PLAN} values 0 val sizes 1": "bytes of its data",
    f"{PLAN} values 0 val dim_order 0": "the order of their dimensions",
    f"{PLAN} values 0 val scalar_type": "a known type of elements",
}


@pytest.mark.parametrize("path", LIES)
def test_a_number_that_leads_nowhere_is_refused_with_its_place(path: str) -> None:
    with pytest.raises(ArchiveError, match=LIES[path]):
        parsed(with_number(SHOP, path, 99))


def test_a_blob_that_no_segment_has_is_refused() -> None:
    with pytest.raises(ArchiveError, match="expected one of"):
        parsed(with_number(XNNPACK, f"{PLAN} delegates 0 processed index", 999))


def test_tensors_must_fit_into_planned_memory() -> None:
    (method,) = parsed(SHOP).methods
    number = next(number for number, tensor in method.tensors.items() if tensor.buffer)
    with pytest.raises(ArchiveError, match="expected at most 288 bytes in buffer 1"):
        parsed(with_number(SHOP, f"{PLAN} values {number} val allocation_info memory_offset_low", 999))


def test_segments_lie_in_the_file_one_after_the_other() -> None:
    for path, number in (
        ("segments 1 offset", 0),
        ("segments 1 offset", 1 << 40),
        ("segments 1 size", 1 << 63),
    ):
        with pytest.raises(ArchiveError, match=r"segment [12]: expected bytes from"):
            parsed(with_number(XNNPACK, path, number))


def test_constants_lie_in_their_segment() -> None:
    with pytest.raises(ArchiveError, match="expected 16 bytes of its data"):
        parsed(with_number(SHOP, "constant_segment offsets 2", 1 << 40))


def test_constants_may_not_overlap() -> None:
    lying = with_number(SHOP, "constant_segment offsets 2", 8)
    with pytest.raises(ArchiveError, match="'data/0' and 'data/1' overlap"):
        listed_tensors(lying)


def test_a_header_that_promises_more_than_the_file_has_is_refused() -> None:
    for at, size in ((HEADER_AT + 8, 8), (HEADER_AT + 16, 8)):
        lying = bytearray(SHOP)
        lying[at : at + size] = (1 << 40).to_bytes(size, "little")
        with pytest.raises(ArchiveError, match="the file is cut short"):
            parsed(bytes(lying))
    short = bytearray(SHOP)
    short[HEADER_AT + 4] = SHORTEST_HEADER - 1
    with pytest.raises(ArchiveError, match="length 24 or more"):
        parsed(bytes(short))


def test_memory_is_bounded() -> None:
    with pytest.raises(LimitError):
        parsed(SHOP, Limits(memory=10_000))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_cut_anywhere_is_refused_or_loses_only_padding(name: str) -> None:
    data = program_file(name).read_bytes()
    whole = parsed(data)
    end = max([whole.flatbuffer[1], *(stop for _, stop in whole.segments)])
    for size in range(0, end, max(1, end // 200)):
        with pytest.raises(ArchiveError):
            parsed(data[:size])


@given(
    st.sampled_from([SHOP, XNNPACK, program_file("mutated").read_bytes()]),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=4)), min_size=1, max_size=4),
)
def test_other_bytes_anywhere_are_refused_in_one_line_or_read(data: bytes, changes: list[Any]) -> None:
    changed = bytearray(data)
    for at, other in changes:
        start = at % len(data)
        changed[start : start + len(other)] = other[: len(data) - start]
    try:
        with archive.open(bytes(changed), name="m", kinds={archive.FileKind.EXECUTORCH}) as opened:
            for name in opened.tensors:
                bytes_of(opened, name)
    except ArchiveError as error:
        if not str(error).isprintable():
            raise
