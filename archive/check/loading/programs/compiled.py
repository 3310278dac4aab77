"""What PyTorch 2.13 asks of a model that AOTInductor compiled, before it runs the model's code.

- The model has a folder, and in it the metadata of its wrapper: an object of texts, the device among them.
- It has one wrapper that is a shared object, or sources that a compiler makes one of. PyTorch asks for the
  metadata of the last C++ source, and without a shared object for the compiler's flags, too.
- A shared object is an ELF file, whole and of the machine that the metadata tell. PyTorch hands it to the
  system's loader, which ends the process where the file is cut short.

Whether this machine has the device and the instructions, and what the code does, is not checked. Source:
``torch/csrc/inductor/aoti_package/model_package_loader.cpp``; each fault was tried with PyTorch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.json_text import read_json, words
from archive.check.loading.programs.files import RecordFault
from archive.formats.elf.parse import is_elf, other_object, parse_object
from archive.formats.exported.mismatches import JsonFault
from archive.formats.record_kinds import COMPILED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.base.limits import Allowance
    from archive.reader.records import ReadableRecord

WRAPPER = "wrapper_metadata.json"
METADATA, FLAGS = "_metadata.json", "_compile_flags.json"
SOURCE, OBJECT, WRAPPER_OBJECT = ".cpp", ".so", ".wrapper.so"
DEVICE, MACHINE = "AOTI_DEVICE_KEY", "AOTI_MACHINE"
MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243, "ppc64le": 21, "s390x": 22}
"""The number of each machine in ELF headers (``e_machine``), by the name that metadata give it."""


def model_folders(names: Iterable[str]) -> dict[str, list[str]]:
    """The compiled models by name, and the records in the folder of each; as PyTorch's loader finds them."""
    found: dict[str, list[str]] = {}
    for name in names:
        if name.startswith(COMPILED):
            found.setdefault(name.removeprefix(COMPILED).partition("/")[0], []).append(name)
    return found


class CompiledCheck:
    """A compiled model.

    Args:
        model: its name.
        names: the records in its folder.
        records: those that can be read.
        allowance: the memory that JSON may cost.
    """

    def __init__(
        self, model: str, names: list[str], records: Mapping[str, ReadableRecord], allowance: Allowance
    ) -> None:
        self._model = model
        self._names = names
        self._records = records
        self._allowance = allowance

    def faults(self) -> list[RecordFault]:
        """The faults of the model's records.

        Raises:
            ArchiveError: metadata are no JSON.
        """
        return [*self._lacking(), *self._contents()]

    def _lacking(self) -> Iterator[RecordFault]:
        """The faults of which records there are."""
        folder = f"{COMPILED}{self._model}/"
        if not self._ending(WRAPPER):
            yield _lacks(folder, f"a file *{WRAPPER}", "Failed to find wrapper metadata for model")
        objects, sources = self._ending(OBJECT), self._ending(SOURCE)
        if len(self._ending(WRAPPER_OBJECT)) > 1:
            problem = f"expected one file *{WRAPPER_OBJECT} in {folder}, found several"
            yield RecordFault("", JsonFault("", problem, "Multiple wrapper shared libraries found"))
        if not objects and not sources:
            yield _lacks(folder, f"a file *{OBJECT} or *{SOURCE}", "")
        for ending in ((METADATA,) if objects else (METADATA, FLAGS)) if sources else ():
            name = sources[-1].removesuffix(SOURCE) + ending
            if name not in self._names:
                yield _lacks(folder, name.removeprefix(folder), "File not found: ")

    def _contents(self) -> Iterator[RecordFault]:
        """The faults of records that can be read."""
        machines = set()
        for name in filter(self._records.__contains__, self._ending(METADATA)):
            metadata = self._json(name)
            yield from _metadata_faults(name, metadata)
            machine = metadata.get(MACHINE) if isinstance(metadata, dict) else None
            machines |= {machine} if isinstance(machine, str) else set()
        for name in filter(self._records.__contains__, self._ending(OBJECT)):
            yield from _object_faults(name, self._records[name].view(), machines)

    def _ending(self, ending: str) -> list[str]:
        return [name for name in self._names if name.endswith(ending)]

    def _json(self, name: str) -> object:
        try:
            value: object = read_json(self._records[name].view(), self._allowance)
        except ArchiveError as error:
            raise error.within(record=name) from error.__cause__
        return value


def _lacks(folder: str, what: str, message: str) -> RecordFault:
    return RecordFault("", JsonFault("", f"expected {what} in {folder}, found none", message))


def _metadata_faults(name: str, metadata: object) -> Iterator[RecordFault]:
    """The faults of what a model was compiled for."""
    if not isinstance(metadata, dict):
        yield RecordFault(name, JsonFault("", f"expected an object, found {words(metadata)}", ""))
        return
    for key, value in metadata.items():
        if not isinstance(value, str):
            yield RecordFault(
                name, JsonFault(key, f"expected a text, found {words(value)}", "type must be string")
            )
    if name.endswith(WRAPPER) and DEVICE not in metadata:
        yield RecordFault(
            name, JsonFault("", f"expected a field {DEVICE}, found none", f"KeyError: {DEVICE!r}")
        )


def _object_faults(name: str, data: memoryview, machines: set[str]) -> Iterator[RecordFault]:
    """The faults of a shared object; those of other systems than Linux are not looked into."""
    if not is_elf(data) and other_object(data):
        return
    try:
        made = parse_object(data)
    except ArchiveError as error:
        problem = str(ArchiveError(error.problem, expected=error.expected, found=error.found))
        yield RecordFault(name, JsonFault(error.place or "", problem, ""))
        return
    known = sorted(machines & MACHINES.keys())
    if known and made.machine not in {MACHINES[machine] for machine in known}:
        problem = f"expected code for {', '.join(known)}, as the metadata say, found an {made}"
        yield RecordFault(name, JsonFault("byte 18", problem, None))
