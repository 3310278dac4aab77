"""What ``inspect`` tells about exported programs, and about the methods of ETRecords."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.formats.exported.program import Program
    from archive.reader.records import Records


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """One exported program.

    Attributes:
        release: of PyTorch that exported it; "" where none is recorded.
        nodes: in its own graph and in those inside of it.
        graphs: inside of its own.
        traced: nodes whose stack trace is recorded.
        modules: different module instances that nodes were made in.
        metadata_bytes: characters of JSON between the braces of the metadata of all nodes.
    """

    release: str
    nodes: int
    graphs: int
    traced: int
    modules: int
    metadata_bytes: int


@dataclass(frozen=True, slots=True)
class MethodFacts:
    """One method of an ETRecord.

    Attributes:
        instructions: of which debug handles are recorded.
        handles: that these have, each once.
        backends: how many instructions call each backend, by its name.
    """

    instructions: int
    handles: int
    backends: Mapping[str, int]


def method_facts(source: Records) -> dict[str, MethodFacts]:
    """The facts about each method of an ETRecord, by name.

    Raises:
        ArchiveError: a map of instructions is broken.
    """
    from archive.reader.instructions import read_instructions  # noqa: PLC0415 (few files have some)

    return {
        method: MethodFacts(
            len(instructions),
            len({handle for one in instructions.values() for handle in one.handles}),
            Counter(one.delegate.backend for one in instructions.values() if one.delegate),
        )
        for method, instructions in read_instructions(source).items()
    }


def program_facts(programs: Mapping[str, Program]) -> dict[str, ProgramFacts]:
    """The facts about each program, by name.

    Raises:
        ArchiveError: a program is broken.
    """
    return {name: _facts(program) for name, program in programs.items()}


def _facts(program: Program) -> ProgramFacts:
    sites = program.sites.values()
    return ProgramFacts(
        program.release,
        len(sites),
        len(program.scopes),
        sum(site.trace is not None for site in sites),
        len({one.path for site in sites for one in site.modules}),
        sum(len(dumps(site.metadata)) - len("{}") for site in sites),
    )
