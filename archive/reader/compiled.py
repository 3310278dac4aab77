"""The compiled models of an archive, each read when it is first asked for; what their loaders do not need."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, in_file
from archive.formats.record_kinds import COMPILED, EXPORTED_FORMAT, KERNELS, RecordKind, kind_in_exported

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from archive.container.record import Record
    from archive.formats.compiled.code import CppCode
    from archive.formats.compiled.kernels import Kernel
    from archive.formats.elf.cutting import Cut
    from archive.formats.record_kinds import SpareKind
    from archive.reader.records import ReadableRecord, Records

METADATA = ".wrapper_metadata.json"


@memory.kept
class CompiledModel:
    """A model that AOTInductor compiled. Properties raise :class:`~archive.ArchiveError` for broken records.

    Args:
        name: of the model: ``model`` if ``aoti_compile_and_package`` made it.
        records: its files, each with the record's name.
    """

    def __init__(self, name: str, records: Mapping[str, str], source: Records) -> None:
        self.name = name
        self.records = records
        self._source = source
        self.allowance = source.allowance
        self._code: dict[str, CppCode] = {}

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """What it was compiled for: device, platform, machine, instructions; empty where none is recorded."""
        file = next((name for name in self.records if name.endswith(METADATA)), None)
        if file is None:
            return {}
        metadata = self._json(file)
        if not isinstance(metadata, dict):
            place = {"file": self._source.file, "record": self.records[file]}
            raise ArchiveError(expected="an object", found="something else", **place)
        return {key: value for key, value in metadata.items() if isinstance(value, str)}

    @property
    def has_kernels(self) -> bool:
        """Whether its kernels lead to nodes and source: ``trace.provenance_tracking_level`` was 1 or more."""
        return KERNELS in self.records

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels by name and handle: ``cpp_fused_relu_0:2``; empty where none are recorded."""
        from archive.formats.compiled.kernels import parse_kernels  # noqa: PLC0415 (few archives have some)

        if not self.has_kernels:
            return {}
        with in_file(self._source.file, self.records[KERNELS]):
            return parse_kernels(self._json(KERNELS))

    @cached_property
    def named(self) -> Mapping[str, Sequence[Kernel]]:
        """The kernels by name, without handle: one for each place that calls it."""
        kernels: defaultdict[str, list[Kernel]] = defaultdict(list)
        for kernel in self.kernels.values():
            kernels[kernel.name].append(kernel)
        return dict(kernels)

    @cached_property
    def profiled(self) -> Mapping[str, set[str]]:
        """The names of kernels by the names that PyTorch's profiler shows, sorted by the latter."""
        kernels: defaultdict[str, set[str]] = defaultdict(set)
        for file in self.sources:
            for shown, kernel in self.code(file).profiled.items():
                kernels[shown].add(kernel)
        return dict(sorted(kernels.items()))

    def shown_from(self, beginning: str) -> set[str]:
        """The names of kernels whose names in PyTorch's profiler begin with a text, as in a narrow table."""
        names = self._shown
        end = bisect_left(names, f"{beginning}\x7f")  # names are of ASCII letters, digits and underscores
        return {
            kernel for name in names[bisect_left(names, beginning) : end] for kernel in self.profiled[name]
        }

    @cached_property
    def _shown(self) -> tuple[str, ...]:
        return tuple(self.profiled)

    def code(self, file: str) -> CppCode:
        """The C++ code of one of its files.

        Raises:
            KeyError: the file is missing.
        """
        from archive.formats.compiled.code import CppCode  # noqa: PLC0415 (the same)

        if file not in self._code:
            self._code[file] = CppCode(self._record(file).view())
        return self._code[file]

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The files of C++ code."""
        return self._of(RecordKind.CPP)

    @cached_property
    def objects(self) -> tuple[str, ...]:
        """The shared objects; none where the package has sources for a compiler."""
        return self._of(RecordKind.SHARED_OBJECT)

    def size(self, *files: str) -> int:
        """Bytes of some of its files, inflated."""
        return sum(self._record(file).size for file in files)

    def view(self, file: str) -> memoryview:
        """The bytes of one of its files.

        Raises:
            KeyError: the file is missing.
        """
        return self._record(file).view()

    def _of(self, kind: RecordKind) -> tuple[str, ...]:
        return tuple(file for file, record in self.records.items() if kind_in_exported(record) is kind)

    def _record(self, file: str) -> ReadableRecord:
        return self._source.records[self.records[file]]

    def _json(self, file: str) -> object:
        from archive.base.json_text import read_json  # noqa: PLC0415 (the same)

        with in_file(self._source.file, self.records[file]):
            value: object = read_json(self.view(file))
            return value


def compiled_models(source: Records, *, alone: bool = False) -> dict[str, CompiledModel]:
    """The compiled models by name; ``aoti_compile_and_package`` calls the only one ``model``.

    Args:
        alone: whether it is a companion without its archive.
    """
    # Only `.pt2` archives have compiled models; a file of a torch.package may have any name.
    records = source.records if alone or EXPORTED_FORMAT in source.records else ()
    files: dict[str, dict[str, str]] = {}
    for record in records:
        model, folder, file = record.removeprefix(COMPILED).partition("/")
        if record.startswith(COMPILED) and folder:
            files.setdefault(model, {})[file] = record
    return {name: CompiledModel(name, some, source) for name, some in files.items()}


class Spare:
    """What the loaders of an archive's compiled models do not need.

    These are records that are debug information, and shared objects that have some in them.

    Attributes:
        records: the kinds of those that no loader needs, by name.
    """

    def __init__(self, records: Mapping[str, Record]) -> None:
        self._all = records
        self._compiled = EXPORTED_FORMAT in records and any(name.startswith(COMPILED) for name in records)
        self.records: dict[str, SpareKind] = {}
        if self._compiled:
            from archive.formats.compiled.spare import spare_records  # noqa: PLC0415 (few archives have some)

            self.records = spare_records(records)

    @cached_property
    def cuts(self) -> dict[str, Cut]:
        """The shared objects with bytes that are never mapped, each in two parts, by name."""
        from archive.formats.compiled.spare import cut_of  # noqa: PLC0415 (few archives have some)

        cuts = {record.name: cut_of(record) for record in self._objects}
        return {name: cut for name, cut in cuts.items() if cut is not None}

    @cached_property
    def whole(self) -> dict[str, str]:
        """By name, why a shared object that may have bytes that are never mapped stays whole, in words."""
        from archive.formats.compiled.spare import why_whole  # noqa: PLC0415 (few archives have some)

        reasons = {record.name: why_whole(record.view()) for record in self._objects}
        return {name: why for name, why in reasons.items() if why}

    @cached_property
    def _objects(self) -> list[Record]:
        if not self._compiled:
            return []
        from archive.formats.compiled.spare import is_object  # noqa: PLC0415 (few archives have some)

        return [record for name, record in self._all.items() if is_object(name)]

    @property
    def kinds(self) -> set[SpareKind]:
        """The kinds that the archive has."""
        if not self._compiled:
            return set()
        from archive.formats.record_kinds import SpareKind  # noqa: PLC0415 (few archives have some)

        return {*self.records.values(), *({SpareKind.OBJECT} if self.cuts else ())}

    def left(self, kinds: Collection[str]) -> dict[str, bytes]:
        """What is left of shared objects, by name; empty if they are among the kinds to keep."""
        return {} if "object" in kinds else {name: cut.left for name, cut in self.cuts.items()}
