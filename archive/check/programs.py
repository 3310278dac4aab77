"""Rules for exported programs: in ``.pt2`` archives, in ETRecords, and as PyTorch 2.1 to 2.7 wrote them.

*In a* ``.pt2``:

- PyTorch 2.13 loads them: the checks of :mod:`archive.check.program_loader`. What it refuses is an error,
  what is not of its schema and not checked is a warning.
- Operators and types that do not come with PyTorch are noted: whether a process has them is not known.
- Each node can be named: names are unique in their graph.
- Texts of metadata are laid out as PyTorch writes them: notes. ``split`` keeps others as they are. A program
  whose nodes have none was split, or saved so: a note.
- Sample inputs are a pickle of a tuple or dict. What it asks for beyond tensors is noted, as PyTorch runs it.
- Each record of a tensor belongs to a row of a table; others are noted.

*As* ``torch.export.save`` *of PyTorch 2.1 to 2.7 wrote them*: PyTorch 2.13 still loads one where its
``version`` has the major number 8, by the schema of today, whose newer fields all have defaults. So it is
checked like one in a ``.pt2``. PyTorch refuses all other versions: a note; then each node can be named,
and texts of metadata are laid out as PyTorch writes them. Pickled tensors are not checked. Source: ``load``
in ``torch/export/__init__.py`` of PyTorch 2.13.

*In an ETRecord of ExecuTorch*:

- Each program can be read, and each of its nodes be named; texts of metadata are laid out as PyTorch writes
  them: notes.
- Maps of instructions can be read, and each handle in them is that of a node of the method's program: else a
  failing instruction leads to nothing.

What ExecuTorch checks when it reads a program is not checked: it has a schema of its own, and operators.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.diagnostics import REFUSED, wrong
from archive.base.errors import ArchiveError, counted, shown
from archive.base.json_text import is_exact, read_json
from archive.check.program_loader import needs, other_schema, program_faults, unknown_operators
from archive.check.program_loader.files import (
    TABLE,
    PayloadCheck,
    Payloads,
    file_faults,
)
from archive.check.registered import note_needed
from archive.formats.etrecord import edge_program, node_handles
from archive.formats.exported.modules import parse_modules
from archive.formats.exported.node_metadata import (
    FUNCTION,
    FUNCTIONS,
    MODULES,
    ORIGINS,
    STACK_TRACE,
    parse_function,
    parse_functions,
)
from archive.formats.exported.origins import parse_origins
from archive.formats.exported.program import Program, graph_of, nodes
from archive.formats.exported.schema import MAJOR, mismatches
from archive.formats.exported.traces import parse_trace
from archive.formats.imported import is_plain
from archive.formats.inert_values import global_names, maker_of
from archive.formats.record_kinds import (
    DATA,
    DELEGATES,
    HANDLES,
    LEGACY_PROGRAM,
    ONLY_PROGRAM,
    OUTPUTS,
    inputs_of_program,
)
from archive.formats.tensors.exported import CONFIGS
from archive.io.mapped import Mapped
from archive.pickles.machine import plain_value
from archive.reader.recognition import SAVED_KINDS, FileKind, opened_zip, recognise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from archive.base.diagnostics import Diagnostic, Diagnostics
    from archive.formats.exported.sites import NodeSite
    from archive.reader.archive import Archive
    from archive.reader.records import ReadableRecord

    Rows = Mapping[str, dict[str, Any]]

PARSERS: dict[str, Callable[[str], object]] = {
    STACK_TRACE: parse_trace,
    MODULES: parse_modules,
    FUNCTION: parse_function,
    FUNCTIONS: parse_functions,
    ORIGINS: parse_origins,
}
"""The kinds of metadata that have a layout, by key."""


def check_programs(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    """Check the exported programs of a ``.pt2`` archive."""
    records = {name: record for name, record in archive.records.items() if name in readable}
    report.add_all(report.attempt("", lambda: list(file_faults(records))) or ())
    used: set[str] = set()
    for name, record in archive.programs.records.items():
        with memory.part():
            check = _ProgramCheck(records, name, report)
            payloads = Payloads(*map(check.rows, CONFIGS))
            used |= check.used
            if record in records:
                report.attempt(record, partial(check.program, record, payloads))
            inputs = inputs_of_program(name)
            if inputs in records:
                report.attempt(inputs, partial(check_inputs, records[inputs], report))
    unused = [name for name in records if name.startswith(tuple(CONFIGS)) and name not in used]
    if unused:
        size = sum(records[name].size for name in unused)
        some = f"{counted(len(unused), 'record')}, {shown(unused[0])} for one"
        report.add("note", "", "", f"no program names {some}: {size:,} bytes")
    if not archive.programs and not archive.compiled:
        report.add("warning", "", "", "no program: torch.export.load fails, load_pt2 gives none")
    elif archive.programs and ONLY_PROGRAM not in archive.programs:
        message = (
            f"torch.export.load reads only the program {ONLY_PROGRAM}, which is not there; load_pt2 reads all"
        )
        report.add("note", "", "", message)


class _ProgramCheck:
    """A program with its tables.

    Attributes:
        used: the records of tensors that its tables name.
    """

    def __init__(self, records: Mapping[str, ReadableRecord], name: str, report: Diagnostics) -> None:
        self.used: set[str] = set()
        self._records = records
        self._name = name
        self._report = report

    def rows(self, folder: str) -> Rows | None:
        """Check a table; its rows, or None where they are not known."""
        old = f"{folder}{self._name}.pt"
        table = f"{folder}{self._name}{CONFIGS[folder]}"
        self.used |= {old, table}
        if old in self._records:
            self._report.add("note", old, "", "a pickle, as PyTorch wrote it before 2.9, is not checked")
            return None
        if table not in self._records:
            return None
        return self._report.attempt(table, partial(self._rows, table, folder))

    def _rows(self, table: str, folder: str) -> Rows | None:
        tree = read_json(self._records[table].view())
        if self._report.add_all(mismatches(tree, TABLE), table):
            return None
        rows: Rows = tree["config"]
        self._report.add_all(PayloadCheck(self._records, folder).faults(rows), table)
        self._report.looked(len(rows), "tensor", "of exported programs checked against its table")
        self.used |= {f"{folder}{row['path_name']}" for row in rows.values()}
        pickled = [name for name, row in rows.items() if row["use_pickle"]]
        if pickled:
            what = f"{counted(len(pickled), 'pickled value')}, {shown(pickled[0])} for one, not checked"
            self._report.add("note", table, "", f"{what}; torch.export.load runs what they name")
        return rows

    def program(self, record: str, payloads: Payloads) -> None:
        """Check a program."""
        data = self._records[record].view()
        tree = read_json(data)
        is_refused = self._report.add_all(program_faults(tree, payloads), record)
        self._report.looked(1, "exported program", "held to what PyTorch 2.13 loads")
        if is_refused:
            return
        sites = Program.of(self._name, tree).sites
        metadata = [site.metadata for site in sites.values()]
        placed = ((place, node["metadata"]) for place, node, *_ in nodes(graph_of(tree)))
        _note_layouts(record, placed, self._report)
        self._report.add_all(unknown_operators(tree), record)
        note_needed(record, needs(tree), self._report)
        if metadata and not any(metadata):
            self._report.add("note", record, "", f"no metadata for {counted(len(metadata), 'node')}")
        if not is_exact(tree, data):
            message = "not as json.dumps writes it, so split leaves its metadata where it is"
            self._report.add("note", record, "", message)


def _note_layouts(
    record: str, metadata: Iterable[tuple[str, Mapping[str, str]]], report: Diagnostics
) -> None:
    """Note texts that are not laid out as PyTorch writes them.

    Args:
        metadata: place and metadata of each node.
    """
    known: dict[tuple[str, str], bool] = {}
    count = 0
    for place, texts in metadata:
        count += 1
        for key, parse in PARSERS.items():
            text = texts.get(key)
            if text and (key, text) not in known:
                known[key, text] = parse(text) is not None
            if text and not known[key, text]:
                where = (f"{place}.metadata.{key}", f"not laid out as PyTorch writes a {key}")
                report.add_each("note", record, f"texts of {key}", [0], lambda _, where=where: where)  # type: ignore[misc]
    report.looked(count, "node", "checked for the layouts of its metadata")


# --- programs of PyTorch 2.1 to 2.7

VERSION = "version"
LEGACY_TENSORS = ("serialized_state_dict", "serialized_constants")
LEGACY_INPUTS = "serialized_example_inputs.pt"
PARTS = 2
"""Numbers in a version: 8.4."""
MAX_VERSION = 100
"""Bytes of a version that are looked at."""


def check_legacy_programs(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    """Check an exported program of PyTorch 2.1 to 2.7."""
    report.add_all(_missing_records(archive))
    version = ""
    if VERSION in readable:
        version = bytes(archive.records[VERSION].view()[:MAX_VERSION]).decode("utf-8", "replace")
    is_version = version.count(".") == PARTS - 1
    if VERSION in readable and not is_version:
        problem = f"expected {PARTS} numbers, found {shown(version)}"
        report.add_all([wrong("", problem, "Version in the saved file has incorrect length")], VERSION)
    for name in (f"{name}.{ending}" for name in LEGACY_TENSORS for ending in ("pt", "json")):
        if name in readable:
            report.add("note", name, "", "tensors, as PyTorch wrote them before 2.8, are not checked")
    if LEGACY_INPUTS in readable:
        inputs = archive.records[LEGACY_INPUTS]
        report.attempt(LEGACY_INPUTS, partial(check_inputs, inputs, report))
    if is_version and version.partition(".")[0] != str(MAJOR):
        problem = other_schema(f"expected schema {MAJOR}, found {shown(version)}", _release_of(archive))
        report.add_all([wrong("", problem, "does not match our current schema version")], VERSION)
    elif LEGACY_PROGRAM in readable and report.attempt(LEGACY_PROGRAM, partial(_is_refused, archive, report)):
        return
    if LEGACY_PROGRAM in readable:
        report.attempt(LEGACY_PROGRAM, partial(_note_legacy_layouts, archive, report))


def _release_of(archive: Archive) -> str:
    """The release that wrote a program; "" where that cannot be read."""
    try:
        return next((program.release for program in archive.programs.values()), "")
    except ArchiveError:  # another fault, which is reported as such
        return ""


def _missing_records(archive: Archive) -> Iterator[Diagnostic]:
    """The records that PyTorch asks for and that are not there."""
    if VERSION not in archive.records:
        refusal = "We ran into an error when deserializing the saved file"
        yield wrong("", f"expected a record {VERSION}, found none", refusal)
    for name in LEGACY_TENSORS:
        if not {f"{name}.pt", f"{name}.json"} & archive.records.keys():
            yield wrong("", f"expected a record {name}.pt, found none", f"{name} is None")
    if LEGACY_INPUTS not in archive.records:
        problem = f"expected a record {LEGACY_INPUTS}, found none"
        yield wrong("", problem, "serialized_example_inputs is None")


def _is_refused(archive: Archive, report: Diagnostics) -> bool:
    """Check a program of today's schema; whether PyTorch refuses it."""
    with memory.part():
        tree = read_json(archive.records[LEGACY_PROGRAM].view())
        return report.add_all(program_faults(tree, Payloads(None, None)), LEGACY_PROGRAM)


def _note_legacy_layouts(archive: Archive, report: Diagnostics) -> None:
    (program,) = archive.programs.values()
    _note_layouts(LEGACY_PROGRAM, [(key, site.metadata) for key, site in program.sites.items()], report)


# --- ETRecords


def check_etrecord(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    """Check an ETRecord."""

    def sites_of(name: str) -> list[NodeSite]:
        return list(archive.programs[name].sites.values())

    sites = {}
    for name, record in archive.programs.records.items():
        nodes_here = report.attempt(record, partial(sites_of, name)) if record in readable else None
        if nodes_here is not None:
            sites[name] = nodes_here
            _note_layouts(record, [(site.key, site.metadata) for site in nodes_here], report)
    broken = {HANDLES, DELEGATES, OUTPUTS} & (archive.records.keys() - readable)
    methods = None if broken else report.attempt("", lambda: archive.instructions)
    for method, instructions in (methods or {}).items():
        program = edge_program(method, sites)
        if program is None:
            report.add("warning", HANDLES, method, "no program that can be read has the nodes of its handles")
            continue
        known = {handle for site in sites[program] for handle in node_handles(site.metadata)}
        lost = [
            number
            for number, instruction in instructions.items()
            if not known.issuperset(instruction.handles)
        ]
        handles = {number: instructions[number].handles for number in lost}
        describe = partial(_lost, method, handles, program)
        report.add_each("warning", HANDLES, "handles of no node", lost, describe)


def _lost(method: str, handles: dict[int, tuple[int, ...]], program: str, number: int) -> tuple[str, str]:
    return f"{method}.{number}", f"expected handles of nodes of {program}, found {shown(handles[number])}"


# --- sample inputs

LEGACY_KINDS = {FileKind.LEGACY, FileKind.LEGACY_TAR, FileKind.LEGACY_TAR_PART}
PICKLE_BYTES = 1 << 22
"""Bytes of a pickle that is read; tensors stand beside it, so PyTorch's own have some hundred."""
NAMED = 3
"""Names that a message lists."""


def check_inputs(record: ReadableRecord, report: Diagnostics) -> None:
    """Check a record of sample inputs: a zip by ``torch.save``, with a pickle of a tuple or dict.

    The pickle is read as inert values. PyTorch 2.13 reads it with ``weights_only`` first; a pickle that asks
    for more than tensors is then read without, so what it names runs. Source: ``deserialize_torch_artifact``
    in ``torch/_export/serde/serialize.py``.
    """
    data = record.view()
    if not len(data):
        return
    recognised = recognise(data, limits=memory.limits(), look=False)
    if recognised.kind in LEGACY_KINDS:
        report.add("note", record.name, "", f"{recognised.what}, is not checked")
        return
    if recognised.kind not in SAVED_KINDS:
        message = f"expected what torch.save writes, found {recognised.what}; {REFUSED}"
        report.add("error", record.name, "", message)
        return
    with opened_zip(Mapped(data, record.name)) as container:
        pickled = container.records[DATA]
        if pickled.size > PICKLE_BYTES:
            report.add("note", record.name, "", f"a pickle of {pickled.size:,} bytes is not checked")
            return
        value, _ = plain_value(pickled.view(), 0)
    what = maker_of(value)
    if isinstance(what, str) and what not in {"tuple", "dict"}:
        message = f"expected a tuple or dict, found {shown(what)}"
        report.add("error", record.name, "", f'{message}; {REFUSED}: "expected tuple or dict, got"')
    others = [name for name in sorted(global_names(value)) if not is_plain(name)]
    if others:
        some = ", ".join(others[:NAMED]) + (", …" if len(others) > NAMED else "")
        how = "torch.export.load then reads it without weights_only, which runs them"
        report.add("note", record.name, "", f"the pickle asks for {some}; {how}")
