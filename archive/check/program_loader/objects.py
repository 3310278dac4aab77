"""What is asked of a compiled model's shared object before its code runs: by the loader, and by PyTorch 2.13.

PyTorch writes the object to a file and hands that to the system's loader (``dlopen``), then asks for
functions by their names (``dlsym``):

- *Identification*: an ELF file of version 1, without another system's ABI, padded with zeros. Machines that
  metadata name have 64 bits, and the byte order of their own.
- *File header*: it is a shared object (ET_DYN) of version 1.
- *Program headers*: they and their segments are in the file, whose end would end the process. There is a
  segment to load and one of dynamic entries. Place in the file and address of what is loaded are as far
  from the beginning of a page: of 4 KiB here, and machines may have larger ones.
- *Dynamic entries*: there are symbols, their names, and a table of hashes in which the loader looks them up.
- *Functions*: those in ``FUNCTIONS`` are defined. PyTorch loads a model without ``RUN``, and its process ends
  when it calls the model.

Section headers are passed over. Not checked are relocations, versions of symbols, the hashes themselves, the
libraries that the object needs, and what code does that runs when the object is loaded. Objects of other
systems are not looked into, nor the symbols of those that are not of 64 bits, little-endian.

Source: ``elf/dl-load.c`` of glibc, whose words are quoted; ``AOTIModelContainerRunner`` in
``torch/csrc/inductor/aoti_runner/model_container_runner.cpp``. Each fault was tried with PyTorch 2.13 and
glibc on x86-64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.diagnostics import UNCHECKED, Diagnostic, diagnostic_of, wrong
from archive.base.errors import ArchiveError, several
from archive.formats.elf.headers import IDENTIFICATION, headers_of, place_of
from archive.formats.elf.model import DT_GNU_HASH, DT_HASH, DT_STRTAB, DT_SYMTAB, PAGE, PT_DYNAMIC, PT_LOAD
from archive.formats.elf.parse import is_elf, other_object, parse_object
from archive.formats.elf.symbols import loaded_symbols
from archive.formats.schema.words import BIG, LITTLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.elf.model import SharedObject

MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243, "ppc64le": 21, "s390x": 22}
"""The number of each machine in ELF headers (``e_machine``), by the name that metadata give it. All have 64
bits."""
BIG_ENDIAN = {22}
"""The big-endian machines among them."""
SHARED, CURRENT = 3, 1
"""The e_type of a shared object, and the current version in both of its fields."""
SYSTEMS = {0, 3}
"""The ABIs that glibc takes: System V's and GNU's."""
RUN = "AOTInductorModelContainerRun"
FUNCTIONS = tuple(
    f"AOTInductorModelContainer{name}"
    for name in (
        "CreateWithDevice",
        "Delete",
        "GetNumOutputs",
        "GetNumConstants",
        "GetConstantName",
        "GetConstantOriginalFQN",
        "GetConstantDtype",
        "UpdateConstantBuffer",
        "UpdateInactiveConstantBuffer",
        "RunConstantFolding",
        "SwapConstantBuffer",
        "GetCallSpec",
    )
)
"""The functions without which PyTorch refuses a model."""


def object_faults(name: str, data: memoryview, machines: set[str]) -> Iterator[Diagnostic]:
    """The faults of a shared object.

    Args:
        name: its record.
        machines: that the metadata name.
    """
    if not is_elf(data) and (other := other_object(data)):
        yield Diagnostic("note", name, "", f"a shared object for {other}, which is not looked into")
        return
    try:
        made = parse_object(data, as_loaded=True)
    except ArchiveError as error:
        yield wrong(error.place or "", diagnostic_of(error).message, "", name)
        return
    known = sorted(machines & MACHINES.keys())
    if known and made.machine not in {MACHINES[machine] for machine in known}:
        problem = f"expected code for {', '.join(known)}, as the metadata say, found an {made}"
        yield wrong(place_of(headers_of(made.bits, made.order).file, "machine"), problem, None, name)
    refusals = [wrong(*fault, name) for fault in _loader_faults(data, made)]
    yield from refusals
    if made.has_form_of_models and not refusals:
        yield from _symbol_faults(name, data, made)
    try:
        parse_object(data)
    except ArchiveError as error:
        problem = f"{diagnostic_of(error).message}; {UNCHECKED}: the loader passes section headers over"
        yield Diagnostic("warning", name, error.place or "", problem)


def _loader_faults(data: memoryview, made: SharedObject) -> Iterator[tuple[str, str, str]]:
    """What the loader refuses: the place, the problem, and the loader's words."""
    headers = headers_of(made.bits, made.order)
    identification, head = IDENTIFICATION.read(data), headers.file.read(data)
    if made.machine in MACHINES.values():
        if made.bits != 64:  # noqa: PLR2004 (as the machine's name says)
            yield (
                place_of(IDENTIFICATION, "ei_class"),
                f"expected 64 bits, found an {made}",
                "wrong ELF class: ELFCLASS32",
            )
        if made.order != (BIG if made.machine in BIG_ENDIAN else LITTLE):
            yield (
                place_of(IDENTIFICATION, "ei_data"),
                f"expected the machine's byte order, found an {made}",
                "ELF file data encoding not ",
            )
    if identification.ei_version != CURRENT:
        yield (
            place_of(IDENTIFICATION, "ei_version"),
            f"expected version 1, found {identification.ei_version}",
            "ELF file version ident does not match current",
        )
    if identification.ei_osabi not in SYSTEMS:
        problem = f"expected the ABI of System V or GNU, found {identification.ei_osabi}"
        yield place_of(IDENTIFICATION, "ei_osabi"), problem, "ELF file OS ABI invalid"
    if any(identification.ei_pad):
        yield place_of(IDENTIFICATION, "ei_pad"), "expected zeros", "nonzero padding in e_ident"
    if head.type != SHARED:
        yield place_of(headers.file, "type"), f"expected a shared object (type 3), found type {head.type}", ""
    if head.version != CURRENT:
        yield (
            place_of(headers.file, "version"),
            f"expected version 1, found {head.version}",
            "ELF file version does not match current one",
        )
    kinds = {segment.kind for segment in made.segments}
    if PT_LOAD not in kinds:
        yield "", "expected a segment to load, found none", "object file has no loadable segments"
    elif PT_DYNAMIC not in kinds:
        yield "", "expected a segment of dynamic entries, found none", "object file has no dynamic section"
    for number, segment in enumerate(made.segments):
        if segment.kind == PT_LOAD and (segment.address - segment.offset) % PAGE:
            problem = f"expected segment {number} as far from the beginning of a page as in memory"
            yield f"byte {made.headers[1][0] + number * headers.program.size}", problem, "page-aligned"
            return


def _symbol_faults(name: str, data: memoryview, made: SharedObject) -> Iterator[Diagnostic]:
    """What PyTorch does not find in an object that the loader takes."""
    entries = made.dynamic(data)
    if not {DT_SYMTAB, DT_STRTAB} <= entries.keys():
        yield wrong("", "expected symbols and their names among the dynamic entries, found none", "", name)
        return
    if not {DT_HASH, DT_GNU_HASH} & entries.keys():
        yield wrong("", "expected a table of hashes for the symbols, found none", "undefined symbol: ", name)
        return
    table = loaded_symbols(data, made)
    if table is None:
        problem = "expected symbols and, after them, their names in a segment, found none"
        yield Diagnostic("warning", name, "", f"{problem}; what functions it has is not checked")
        return
    lacking = [function for function in (*FUNCTIONS, RUN) if table.defined(function.encode()) is None]
    if lacking == [RUN]:
        problem = f"expected a function {RUN}, found none"
        yield Diagnostic(
            "error", name, "", f"{problem}; PyTorch 2.13 loads it, and ends when it calls the model"
        )
    elif lacking:
        missing = several([f"no {function}" for function in lacking])
        problem = f"expected the functions of a compiled model, found {missing}"
        yield wrong("", problem, "undefined symbol: ", name)
