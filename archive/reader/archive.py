"""An opened archive: its records, and the facts in them, each read when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from archive.base.bounded import bounded_members
from archive.base.closing import Closing
from archive.base.errors import ArchiveError, counted, in_file, several
from archive.base.notebooks import shown_by
from archive.debuginfo.symbolicate import Style, Symbolication, TableLookup, symbolicate
from archive.debuginfo.tables import FactMapping, RangeRows
from archive.debuginfo.unique_handles import prefix_at_end
from archive.formats import callstack_map
from archive.formats.bytecode import InstructionTable
from archive.formats.effects import EFFECTS
from archive.formats.lowered import find_lowered
from archive.formats.method_handles import method_records
from archive.formats.record_kinds import (
    BYTECODE,
    CALLSTACK_MAP,
    DATA,
    code_of,
    is_code,
    label_in,
    place_of_companion,
    range_records_of,
)
from archive.reader.compiled import compiled_models
from archive.reader.digests import Digests
from archive.reader.pickle_records import PickleRecords
from archive.reader.programs import Programs
from archive.reader.recognition import COMPANION, FileKind, recognise_zip
from archive.reader.records import Rejoined, UniqueTables
from archive.reader.split_handles import logged_form

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from archive.base.limits import Limits
    from archive.container.container import Container
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.model import HandleEntry, LoweredState, SourceRange
    from archive.debuginfo.symbolicate import HandleLookup
    from archive.debuginfo.tables import RangeSummary, RangeTable
    from archive.debuginfo.unique_handles import HandleForm
    from archive.formats.bytecode import Bytecode
    from archive.formats.compiled.kernels import Kernel
    from archive.formats.effects.model import EffectTable
    from archive.io.output import Sink
    from archive.pickles.tree import Tree
    from archive.reader.companion import Companion
    from archive.reader.compiled import CompiledModel, Spare
    from archive.reader.instructions import Instructions
    from archive.reader.line_digests import LineDigests
    from archive.reader.recognition import Recognised
    from archive.reader.records import DebugTables, ModuleClassNames, ReadableRecord, Records, TensorRecords
    from archive.reader.tensors import Tensors

EXAMPLES = 3
"""Records that a message names."""


@bounded_members
class Archive(Closing):
    """A PyTorch model archive, a companion, or both read as one. :func:`archive.open` makes it.

    Use it in a ``with`` statement, or call :meth:`close`. Every property and method raises
    :class:`~archive.ArchiveError`, naming file, record and place, where the record it needs is broken.

    Args:
        container: the zip; None for a companion without its archive.
        companion: where debug information is read from; None if the zip's own records have it.
        tensor_file: a file of tensors that isn't a zip, in place of both.

    Attributes:
        companion: as given.
        tensor_file: as given.
        allowance: the memory and sizes that the file, or both files together, may ask for.
    """

    def __init__(
        self,
        container: Container | None,
        *,
        companion: Companion | None = None,
        tensor_file: TensorRecords | None = None,
    ) -> None:
        if container is None and companion is None and tensor_file is None:
            raise TypeError("an archive needs a container, a companion, or both; or a file of tensors")
        self.companion = companion
        self.tensor_file = tensor_file
        self._container = container
        self._source: Records
        if container is None or companion is None:
            self._source = cast("Records", container or companion or tensor_file)
        else:
            self._source = Rejoined(container, companion)
        self.allowance = self._source.allowance
        self._pickles = PickleRecords(self._source)
        self._debug: DebugTables = companion or self._pickles
        self._names: ModuleClassNames = companion if companion and container is None else self._pickles

    def close(self) -> None:
        """Close the file; views in use stay valid."""
        self._source.close()

    _repr_html_ = shown_by("of_archive")

    def __repr__(self) -> str:
        """The file and what is known of it so far, without reading more."""
        parts = [f"Archive {self.file!r}"]
        if self.companion:
            parts.append(f"with companion {self.companion.file!r}" if self.has_code else "a companion alone")
        if self.companion is None or "records" in vars(self._source):
            parts.append(counted(len(self.records), "record"))
        handles: HandleTable | None = vars(self._debug).get("handle_table")
        if handles is not None:
            parts.append(counted(len(handles), "handle"))
        return f"<{', '.join(parts)}>"

    # The file

    @property
    def limits(self) -> Limits:
        """The bounds that the file was opened with."""
        return self.allowance.limits

    @property
    def file(self) -> str:
        """The file's name, for messages."""
        return self._source.file

    @property
    def root(self) -> str:
        """The folder that all records are in."""
        return self._source.root

    @property
    def size(self) -> int:
        """Bytes of the file; those of a separate companion file don't count."""
        return self._source.size

    @property
    def has_code(self) -> bool:
        """Whether it has the model's own records; False for a companion without its archive."""
        return self._container is not None or self.tensor_file is not None

    @property
    def container(self) -> Container:
        """The zip.

        Raises:
            ArchiveError: this is a companion without its archive, or a file of tensors that isn't a zip.
        """
        if self._container is None:
            raise self.recognised.refusal(self.file)
        return self._container

    @property
    def is_embedded(self) -> bool:
        """Whether it is an archive with a companion inside."""
        records = {} if self._container is None else self._container.records
        return place_of_companion(records) in records

    @property
    def records(self) -> Mapping[str, ReadableRecord]:
        """The records by name, without root, in the file's order."""
        return self._source.records

    @cached_property
    def recognised(self) -> Recognised:
        """The kind of archive, in a sentence."""
        if self.tensor_file is not None:
            return self.tensor_file.recognised
        return recognise_zip(self._container) if self._container is not None else COMPANION

    @cached_property
    def archive_id(self) -> bytes:
        """16 bytes that an archive and its companion share."""
        return self.companion.archive_id if self.companion else self.digests.id

    @cached_property
    def digests(self) -> Digests:
        """The digests of its own file."""
        return Digests(self)

    def save(self, path: Sink, *, force: bool = False) -> None:
        """Write the file again; unchanged content gives identical bytes.

        Args:
            path: the target: a path, or a binary file; written when complete.
            force: replace an existing file.

        Raises:
            ArchiveError: the companion is a separate file (:func:`archive.join` makes both one); the target
                isn't a regular file, or exists and ``force`` is not given; or the file was written to since
                it was opened.
            OSError: the target cannot be written; it is left untouched.
        """
        if self.companion and self.has_code and not self.is_embedded:
            raise ArchiveError(
                "this archive was opened with a separate companion; archive.join writes both into one file",
                file=self.file,
            )
        from archive.io.output import replacing, write_all  # noqa: PLC0415 (only those who write pay)

        with replacing(path, force=force) as file:
            write_all(self._source.data, file)
            self._source.check_unchanged()

    # The same archive, read in another way

    def reread(self) -> Archive:
        """The same archive, its debug information parsed from all its records, a companion's too."""
        again = Archive(self._container, companion=self.companion, tensor_file=self.tensor_file)
        again._debug = again._pickles
        return again

    def with_unique_handles(self, prefix: int) -> Archive:
        """The same archive, with unique handles in its columns; its records stay as they are.

        Args:
            prefix: as :func:`archive.debuginfo.unique_handles.prefix_for` gives it.
        """
        again = Archive(self._container, companion=self.companion, tensor_file=self.tensor_file)
        again._debug = UniqueTables(self._debug, prefix)
        return again

    @cached_property
    def redacted(self) -> Archive | None:
        """The archive without its companion, where it has source ranges or traces, as a redacted one has."""
        if self.companion is None or self._container is None:
            return None
        bare = Archive(self._container)
        sites = (site for program in bare.programs.values() for site in program.sites.values())
        return bare if bare.range_records or any(site.trace for site in sites) else None

    @cached_property
    def line_digests(self) -> Mapping[str, LineDigests]:
        """Digests of lines of code that isn't at hand, by code record: see :mod:`.line_digests`.

        Raises:
            ArchiveError: the companion is broken.
        """
        return {} if self.companion is None or self.has_code else self.companion.line_digests

    @property
    def is_renumbered(self) -> bool:
        """Whether its columns have other handles than its records: see :meth:`with_unique_handles`."""
        return isinstance(self._debug, UniqueTables)

    # Columns

    def tree(self, names: Sequence[str]) -> Tree:
        """The values of some pickle records, as columns, all in one tree.

        Raises:
            ArchiveError: the record is missing, or isn't a pickle that PyTorch could have written.
        """
        return self._pickles.tree(names)

    @property
    def range_records(self) -> tuple[str, ...]:
        """The records that hold source ranges."""
        return self._pickles.range_records

    @property
    def range_table(self) -> RangeTable:
        """The source ranges of all records, as columns."""
        return self._debug.range_table

    @property
    def range_summary(self) -> RangeSummary:
        """How much the records of source ranges hold."""
        return self._debug.range_summary

    @property
    def handle_table(self) -> HandleTable | None:
        """The call-stack debug map, as columns; None where there is none."""
        return self._debug.handle_table

    @property
    def method_table(self) -> MethodTable | None:
        """The handles of each method's instructions, as columns; None where there are none."""
        return self._debug.method_table

    @property
    def handle_form(self) -> HandleForm:
        """The form of the handles in these columns, and of those that the model prints."""
        return self._debug.handle_form

    @cached_property
    def instruction_table(self) -> InstructionTable | None:
        """The instructions of ``bytecode.pkl``, looked up one by one; None where there is none."""
        if BYTECODE not in self.records:
            return None
        with in_file(self.file):
            return InstructionTable(self.tree([BYTECODE]), 0)

    @property
    def path_table(self) -> MethodTable | None:
        """The module paths of PyTorch 1.7 and 1.8, as columns; None where there are none."""
        return self._debug.path_table

    @property
    def method_records(self) -> Mapping[str, MethodTable]:
        """Whichever of these two tables exist, by the names of their records."""
        return method_records(self.method_table, self.path_table)

    # Facts

    def ranges(self, name: str) -> RangeRows:
        """The source ranges of a code record, or of a debug record given by its own name.

        Raises:
            ArchiveError: the record is missing.
        """
        return RangeRows(self.range_table, self.range_table.numbers[self._range_name(name)])

    def locate(self, name: str, position: int) -> SourceRange | None:
        """The original source of a byte position in a generated code record; None where none is known.

        Raises:
            ArchiveError: the record is missing.
        """
        return self._debug.locate(self._range_name(name), position)

    def _range_name(self, name: str) -> str:
        """The record of source ranges that goes with a name."""
        names = self._debug.range_names
        for debug in (name, *range_records_of(name)):
            if debug in names:
                return debug
        codes = [*filter(is_code, map(code_of, names))]
        known = several(codes, EXAMPLES) or "none"
        raise ArchiveError(f"no source ranges for {name!r}; available: {known}", file=self.file)

    @cached_property
    def handles(self) -> Mapping[int, HandleEntry]:
        """Each debug handle's operator, place and call stack; empty without a call-stack map."""
        table = self.handle_table
        return {} if table is None else FactMapping(table.rows, table.entry)

    @cached_property
    def methods(self) -> Mapping[str, Sequence[int]]:
        """For each method, one debug handle per instruction; empty where none are recorded."""
        table = self.method_table
        if table is None:
            return {}
        return FactMapping({name: i for i, name in enumerate(table.names)}, table.values)

    @cached_property
    def module_paths(self) -> Mapping[str, Sequence[str]]:
        """For each method of a 1.7 or 1.8 archive, one module path per operator instruction."""
        table = self.path_table
        if table is None:
            return {}
        return FactMapping({name: i for i, name in enumerate(table.names)}, table.texts)

    def value(self, name: str) -> object:
        """A pickle record as inert values: see :mod:`archive.formats.inert_values`.

        Returns:
            A new object for each caller, who may change its lists and dicts.

        Raises:
            ArchiveError: the record is missing, or cannot be read.
        """
        return self._pickles.value(name)

    @property
    def data(self) -> object:
        """``data.pkl``, the module tree, as inert values; None where there is none (PyTorch 1.0 to 1.2).

        It is kept and shared with the library; to change it, ask for ``value("data.pkl")``.
        """
        return self._pickles.data

    @property
    def bytecode(self) -> Bytecode | None:
        """The version and the methods of ``bytecode.pkl``; None where there is none."""
        return self._pickles.bytecode

    @cached_property
    def programs(self) -> Programs:
        """The exported programs by name, each parsed when it is first looked up; empty in other archives."""
        return Programs(self._source, self.companion)

    @cached_property
    def tensors(self) -> Tensors:
        """The tensors by name, read when they are first asked for; a companion has none."""
        from archive.reader.tensors import Tensors  # noqa: PLC0415 (only those who ask for tensors pay)

        # `data.pkl` isn't looked at: whatever torch.save wrote has its tensors there.
        kind = COMPANION.kind if self._container is None else recognise_zip(self._container, look=False).kind
        return Tensors(self._source, kind, self._container, self._pickles.shared_value, self.tensor_file)

    @cached_property
    def compiled(self) -> Mapping[str, CompiledModel]:
        """The models that AOTInductor compiled, by name; empty in other archives."""
        return compiled_models(self._source, alone=not self.has_code)

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels of all compiled models by their labels.

        A label is a kernel's name and handle, ``cpp_fused_relu_0:2``, after the name of its model,
        ``encoder:cpp_fused_relu_0:2``, unless that is PyTorch's default, ``model``.
        """
        return {
            label_in(model.name, kernel.key): kernel
            for model in self.compiled.values()
            for kernel in model.kernels.values()
        }

    @cached_property
    def instructions(self) -> Instructions:
        """The instructions of each method of an ETRecord, by number; empty in other archives."""
        if self.recognised.kind is not FileKind.ETRECORD:
            return {}
        from archive.reader.instructions import read_instructions  # noqa: PLC0415 (few archives have some)

        return read_instructions(self._source)

    @cached_property
    def spare(self) -> Spare:
        """What the loaders of its compiled models do not need; empty in other archives."""
        from archive.reader.compiled import Spare  # noqa: PLC0415 (only what writes files asks)

        return Spare({} if self._container is None else self._container.records)

    @cached_property
    def effects(self) -> EffectTable | None:
        """The side effects of its methods; None where the archive has no such table."""
        if EFFECTS not in self.records:
            return None
        from archive.formats.effects.record import parse_effects  # noqa: PLC0415 (few archives have some)

        with in_file(self.file):
            return parse_effects(self.tree([EFFECTS]), 0)

    @cached_property
    def lowered(self) -> Mapping[str, LoweredState]:
        """The modules that were lowered to a backend, by attribute path."""
        with in_file(self.file):
            return find_lowered(self.data)

    @property
    def top(self) -> str:
        """Class name of the top module, as PyTorch's texts have it; "" where it isn't recorded."""
        return self._names.top

    @property
    def qualified_top(self) -> str:
        """The same with its module: ``__torch__.models.Stack``."""
        return self._names.qualified_top

    @property
    def classes(self) -> Collection[str]:
        """The qualified names of all classes in the module tree; for a companion, those in call stacks."""
        return self._names.classes

    @cached_property
    def generations(self) -> Mapping[str, str]:
        """The layout of each debug record, and of the lowered modules' states in ``data.pkl``."""
        summary = self.range_summary
        layouts: dict[str, str] = dict(zip(summary.names, map(str, summary.layouts), strict=True))
        handles = self.handle_table
        if handles is not None:
            layouts[CALLSTACK_MAP] = callstack_map.generation(handles)
        layouts |= {name: table.generation for name, table in self.method_records.items()}
        lowered = sorted({state.generation for state in self.lowered.values()})
        if lowered:
            layouts[DATA] = ", ".join(lowered)
        return {name: layouts[name] for name in self.records if name in layouts}

    @cached_property
    def _has_lowered_nodes(self) -> bool:
        """Whether its handles are those of nodes in programs that were lowered in parts."""
        from archive.reader.lookups.nodes import DELEGATE  # noqa: PLC0415 (not for TorchScript)

        if self.instructions or not self.programs.may_call(DELEGATE):
            return False
        sites = (site for program in self.programs.values() for site in program.sites.values())
        return any(site.handle is not None for site in sites)

    def _lookup(self, handles: Sequence[int]) -> HandleLookup:
        """Where handles are looked up; for an archive as it was before `split`, unique ones, too."""
        if self.handle_form.prefix or not any(prefix_at_end(str(handle)) for handle in handles):
            return self._debug.known
        return TableLookup(self.handle_table, self.range_table, logged_form(self))

    def symbolicate(
        self, handles: int | Sequence[int], style: Style = Style.CURRENT, *, top: str | None = None
    ) -> Symbolication:
        """The model source that debug handles stand for.

        Args:
            handles: one handle, or those of one failure, from the innermost to the outermost. A unique handle
                may be given without its prefix, and a handle with it.
            style: the release whose wording is used.
            top: class of the module in which the outermost call stack starts; by default that of the top
                module.

        Raises:
            ArchiveError: no handles are given, or they are those of nodes in a program that was lowered in
                parts, which have no call stack; or a record that is needed is broken.
            LimitError: a call stack was forged to repeat long texts.
        """
        if not isinstance(handles, int) and not handles:
            raise ArchiveError("no handles to symbolicate", file=self.file)
        with in_file(self.file):
            found = symbolicate(
                [handles] if isinstance(handles, int) else list(handles),
                known=self._lookup([handles] if isinstance(handles, int) else handles),
                top=self.top if top is None else top,
                style=style,
                limits=self.limits,
                classes=self.classes if style is Style.V1_9 else None,
            )
            if found.missing and self.programs and self._has_lowered_nodes:
                raise ArchiveError("its debug handles are nodes': the command `symbolicate` has their source")
            return found


def shared_value(archive: Archive, name: str) -> object:
    """A pickle record as :meth:`Archive.value` gives it, shared among readers within the library.

    Small ones are made once and kept: nobody changes them.
    """
    return archive._pickles.shared_value(name)  # noqa: SLF001 (no name of the public class)
