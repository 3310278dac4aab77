"""What ``inspect`` tells about exported programs."""

from __future__ import annotations

from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.formats.exported.program import Program


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
