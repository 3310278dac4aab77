"""What ``inspect`` says about exported programs, the methods of ETRecords, and compiled models."""

from __future__ import annotations

from collections import Counter
from json import dumps
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.formats.exported.loaded import given_text
from archive.reader.lookups.nodes import DELEGATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.formats.exported.program import Program
    from archive.reader.compiled import CompiledModel
    from archive.reader.records import Records

TARGET = ("AOTI_DEVICE_KEY", "AOTI_PLATFORM", "AOTI_MACHINE", "AOTI_CPU_ISA", "AOTI_COMPUTE_CAPABILITY")
"""What a model was compiled for, as its metadata calls it."""


@dataclass(frozen=True, slots=True)
class LoweredPartition:
    """A part of a program that a backend runs.

    Attributes:
        backend: its name; "" where the node is not recorded.
        nodes: the nodes that it runs, each with its debug handle; none without metadata.
    """

    backend: str
    nodes: dict[str, int]


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """One exported program.

    Attributes:
        release: of PyTorch that exported it; "" where none is recorded.
        schema: version of the schema of its JSON, ``8.20``; "" where none is recorded.
        nodes: in its own graph and in those inside of it.
        graphs: inside of its own.
        traced: nodes whose stack trace is recorded.
        modules: different module instances that nodes were made in.
        metadata_bytes: characters of JSON between the braces of the metadata of all nodes.
        lowered: the partitions that ``archive.backend`` lowered, by the name of their graph.
    """

    release: str
    schema: str
    nodes: int
    graphs: int
    traced: int
    modules: int
    metadata_bytes: int
    lowered: Mapping[str, LoweredPartition]


def program_facts(programs: Mapping[str, Program]) -> dict[str, ProgramSummary]:
    """The facts about each program, by name."""
    facts = {}
    for name, program in programs.items():
        sites = program.sites.values()
        facts[name] = ProgramSummary(
            program.release,
            program.schema,
            len(sites),
            len(program.scopes),
            sum(site.trace is not None for site in sites),
            len({module.path for site in sites for module in site.modules}),
            sum(len(dumps(site.metadata)) - len("{}") for site in sites),
            _lowered(program),
        )
    return facts


def _lowered(program: Program) -> dict[str, LoweredPartition]:
    """The partitions of a program that a backend runs, in the order in which it calls them."""
    partitions: dict[str, LoweredPartition] = {}
    for site in program.sites.values():
        if site.scopes and (caller := program.sites[site.holder]).target == DELEGATE:
            name = site.scopes[-1].name
            if name not in partitions:
                partitions[name] = LoweredPartition(given_text(caller, "backend"), {})
            if site.handle is not None:
                partitions[name].nodes[site.name] = int(site.handle)
    return partitions


@dataclass(frozen=True, slots=True)
class InstructionFacts:
    """One method of an ETRecord.

    Attributes:
        instructions: of which debug handles are recorded.
        handles: that these have, each once.
        backends: how many instructions call each backend, by its name.
    """

    instructions: int
    handles: int
    backends: Mapping[str, int]


def method_facts(source: Records) -> dict[str, InstructionFacts]:
    """The facts about each method of an ETRecord, by name."""
    from archive.reader.instructions import read_instructions  # noqa: PLC0415 (few files have some)

    return {
        method: InstructionFacts(
            len(instructions),
            len({handle for instruction in instructions.values() for handle in instruction.handles}),
            Counter(each.delegate.backend for each in instructions.values() if each.delegate),
        )
        for method, instructions in read_instructions(source).items()
    }


@dataclass(frozen=True, slots=True)
class CompiledFacts:
    """One compiled model.

    Attributes:
        target: device, system, machine and instructions that it was compiled for; "" where none is recorded.
        has_kernels: whether its kernels lead to source.
        kernels: places that call a kernel.
        traced: those whose stack traces are recorded.
        code_bytes: bytes of C++ code.
        object_bytes: bytes of shared objects; None where there are none.
        mapped_bytes: those that the loader maps; None where there are no shared objects, or where they are
            remote or of another format than ELF.
    """

    target: str
    has_kernels: bool
    kernels: int
    traced: int
    code_bytes: int
    object_bytes: int | None
    mapped_bytes: int | None


def compiled_facts(models: Mapping[str, CompiledModel], *, read: bool) -> dict[str, CompiledFacts]:
    """The facts about each compiled model, by name.

    Args:
        read: whether shared objects are read.
    """
    facts = {}
    for name, model in models.items():
        kernels, objects = model.kernels.values(), model.objects
        facts[name] = CompiledFacts(
            " ".join(model.metadata[key] for key in TARGET if model.metadata.get(key)),
            model.has_kernels,
            len(kernels),
            sum(bool(kernel.stack_traces) for kernel in kernels),
            model.size(*model.sources),
            model.size(*objects) if objects else None,
            _mapped(model) if read else None,
        )
    return facts


def _mapped(model: CompiledModel) -> int | None:
    """Bytes of shared objects that the loader maps; None where that is not known."""
    from archive.formats.elf.parse import other_object, parse_object  # noqa: PLC0415 (few archives have shared objects)

    sizes = []
    for file in model.objects:
        data = model.view(file)
        if other_object(data):
            return None
        try:
            sizes.append(parse_object(data).mapped_bytes)
        except ArchiveError as error:
            raise error.within(record=model.records[file]) from error.__cause__
    return sum(sizes) if sizes else None
