"""The instructions of an ETRecord's methods: where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from archive.base import memory
from archive.base.errors import in_file
from archive.base.json_text import read_json
from archive.base.limits import Steps
from archive.formats.etrecord import Instruction, parse_delegates, parse_handles, parse_outputs
from archive.formats.record_kinds import DELEGATES, HANDLES, OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from archive.reader.records import Records

    Fact = TypeVar("Fact")

Instructions: TypeAlias = "Mapping[str, Mapping[int, Instruction]]"


def read_instructions(source: Records) -> Instructions:
    """The instructions of each method, by number; empty where the record was not finished."""
    handles = _map(source, HANDLES, parse_handles)
    delegates = _map(source, DELEGATES, parse_delegates)
    outputs = _map(source, OUTPUTS, parse_outputs)
    instructions = {}
    for method in {**handles, **delegates}:
        own, called, made = handles.get(method, {}), delegates.get(method, {}), outputs.get(method, {})
        instructions[method] = {
            number: Instruction(own.get(number, ()), called.get(number), made.get(number))
            for number in sorted({*own, *called})
        }
    return instructions


def _map(
    source: Records, name: str, parse: Callable[[object], dict[str, dict[int, Fact]]]
) -> dict[str, dict[int, Fact]]:
    """A map of instructions; empty where there is none."""
    if name not in source.records:
        return {}
    with in_file(source.file, name):
        tree = read_json(source.records[name].view())
        Steps(memory.limits().work).take(len(tree) if isinstance(tree, dict) else 0)
        facts = parse(tree)
        memory.take(memory.ROW * sum(map(len, facts.values())), "instructions")
        return facts
