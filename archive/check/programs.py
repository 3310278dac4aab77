"""Rules for exported programs.

- PyTorch 2.13 loads them: the checks of :mod:`archive.check.loading.programs`. What it refuses is an error,
  what is not of its schema and not checked is a warning.
- Operators and types that do not come with PyTorch are noted: whether a process has them is not known.
- Each node can be named: names are unique in their graph.
- Texts of metadata are laid out as PyTorch writes them: notes. ``split`` keeps others as they are. A program
  whose nodes have none was split, or saved so: a note.
- Sample inputs are a pickle of a tuple or dict. What it asks for beyond tensors is noted, as PyTorch runs it.
- Each record of a tensor belongs to a row of a table; others are noted.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from archive.base.errors import counted, one_line, shown
from archive.base.json_text import is_exact, read_json
from archive.check.diagnostic import MAX_LISTED
from archive.check.inputs import REFUSED, check_inputs
from archive.check.loading.programs import program_faults
from archive.check.loading.programs.files import INPUTS, file_faults
from archive.check.loading.programs.needs import needs
from archive.check.loading.programs.payloads import CONFIGS, TABLE, PayloadCheck, Payloads
from archive.formats.exported.functions import parse_function, parse_functions
from archive.formats.exported.kinds import FUNCTION, FUNCTIONS, MODULES, ORIGINS, STACK_TRACE
from archive.formats.exported.mismatches import mismatches
from archive.formats.exported.modules import parse_modules
from archive.formats.exported.origins import parse_origins
from archive.formats.exported.program import Program, graph_of, nodes
from archive.formats.exported.traces import parse_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from archive.base.limits import Allowance
    from archive.check.diagnostic import Diagnostics, Severity
    from archive.check.loading.programs.files import RecordFault
    from archive.formats.exported.mismatches import JsonFault
    from archive.reader.archive import Archive
    from archive.reader.records import ReadableRecord

    Rows = Mapping[str, dict[str, Any]]

UNCHECKED = "PyTorch 2.13 may take it all the same"
PARSERS: dict[str, Callable[[str], object]] = {
    STACK_TRACE: parse_trace,
    MODULES: parse_modules,
    FUNCTION: parse_function,
    FUNCTIONS: parse_functions,
    ORIGINS: parse_origins,
}
"""The kinds of metadata that have a layout, by key."""
NEEDED = 3
"""Types and operators that a message names."""
ONLY = "model"
"""The program that ``torch.export.load`` reads."""


def check_programs(archive: Archive, readable: set[str], report: Diagnostics) -> None:
    """Check the exported programs of an archive.

    Args:
        archive: the archive.
        readable: the records that can be read.
        report: takes the diagnostics.
    """
    records = {name: record for name, record in archive.records.items() if name in readable}
    add_by_record(report.attempt("", lambda: list(file_faults(records))) or (), report)
    used: set[str] = set()
    for name, record in archive.programs.records.items():
        with archive.allowance.part() as allowance:
            check = _ProgramCheck(records, name, allowance, report)
            payloads = Payloads(*map(check.rows, CONFIGS))
            used |= check.used
            if record in records:
                report.attempt(record, partial(check.program, record, payloads))
            check.inputs()
    _note_unused(records, used, report)
    if not archive.programs and not archive.compiled:
        report.add("warning", "", "", "no program: torch.export.load fails, load_pt2 gives none")
    elif archive.programs and ONLY not in archive.programs:
        message = f"torch.export.load reads the program {ONLY} alone, and there is none; load_pt2 reads all"
        report.add("note", "", "", message)


class _ProgramCheck:
    """A program with its tables.

    Attributes:
        used: the records of tensors that its tables name.
    """

    def __init__(
        self, records: Mapping[str, ReadableRecord], name: str, allowance: Allowance, report: Diagnostics
    ) -> None:
        self.used: set[str] = set()
        self._records = records
        self._name = name
        self._allowance = allowance
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
        tree = read_json(self._records[table].view(), self._allowance)
        if add_faults(mismatches(tree, TABLE), table, self._report):
            return None
        rows: Rows = tree["config"]
        add_faults(PayloadCheck(self._records, folder).faults(rows), table, self._report)
        self.used |= {f"{folder}{row['path_name']}" for row in rows.values()}
        pickled = [name for name, row in rows.items() if row["use_pickle"]]
        if pickled:
            what = f"{counted(len(pickled), 'pickled value')}, {shown(pickled[0])} for one, not checked"
            self._report.add("note", table, "", f"{what}; torch.export.load runs what they name")
        return rows

    def inputs(self) -> None:
        """Check the sample inputs, where there are some."""
        record = INPUTS.format(self._name)
        if record in self._records:
            check = partial(check_inputs, self._records[record], self._allowance, self._report)
            self._report.attempt(record, check)

    def program(self, record: str, payloads: Payloads) -> None:
        """Check a program.

        Raises:
            ArchiveError: the record is no program.
        """
        data = self._records[record].view()
        tree = read_json(data, self._allowance)
        if add_faults(program_faults(tree, payloads), record, self._report):
            return
        sites = Program.of(self._name, tree).sites
        metadata = [site.metadata for site in sites.values()]
        placed = ((place, node["metadata"]) for place, node, *_ in nodes(graph_of(tree)))
        note_layouts(record, placed, self._report)
        needed = needs(tree)
        if needed:
            some = ", ".join(map(one_line, needed[:NEEDED])) + (", …" if len(needed) > NEEDED else "")
            self._report.add("note", record, "", f"PyTorch loads it where others have registered {some}")
        if metadata and not any(metadata):
            self._report.add("note", record, "", f"no metadata for {counted(len(metadata), 'node')}")
        if not is_exact(tree, data):
            message = "not as json.dumps writes it, so split leaves its metadata where it is"
            self._report.add("note", record, "", message)


def note_layouts(record: str, metadata: Iterable[tuple[str, Mapping[str, str]]], report: Diagnostics) -> None:
    """Note texts that are not laid out as PyTorch writes them.

    Args:
        record: the program's.
        metadata: place and metadata of each node.
        report: takes the diagnostics.
    """
    known: dict[tuple[str, str], bool] = {}
    for place, texts in metadata:
        for key, parse in PARSERS.items():
            text = texts.get(key)
            if text and (key, text) not in known:
                known[key, text] = parse(text) is not None
            if text and not known[key, text]:
                where = (f"{place}.metadata.{key}", f"not laid out as PyTorch writes a {key}")
                report.add_each("note", record, f"texts of {key}", [0], partial(_same, where))


def _same(where: tuple[str, str], _: int) -> tuple[str, str]:
    return where


def _note_unused(records: Mapping[str, ReadableRecord], used: set[str], report: Diagnostics) -> None:
    """Note records of tensors that no table names."""
    unused = [name for name in records if name.startswith(tuple(CONFIGS)) and name not in used]
    if unused:
        size = sum(records[name].size for name in unused)
        some = f"{counted(len(unused), 'record')}, {shown(unused[0])} for one"
        report.add("note", "", "", f"no program names {some}: {size:,} bytes")


def add_by_record(faults: Iterable[RecordFault], report: Diagnostics) -> None:
    """Add the faults of several records to the diagnostics."""
    found: dict[str, list[JsonFault]] = {}
    for record, fault in faults:
        found.setdefault(record, []).append(fault)
    for record, some in found.items():
        add_faults(some, record, report)


def add_faults(faults: Iterable[JsonFault], record: str, report: Diagnostics) -> bool:
    """Add the faults of a record to the diagnostics; whether PyTorch refuses one of them."""
    count, refused = 0, False
    for fault in faults:
        count += 1
        refused |= fault.message is not None
        if count <= MAX_LISTED:
            severity: Severity = "warning" if fault.message is None else "error"
            report.add(severity, record, one_line(fault.place), f"{fault.problem}; {_told(fault.message)}")
    if count > MAX_LISTED:
        report.add("error" if refused else "warning", record, "", f"… and {count - MAX_LISTED:,} more")
    return refused


def _told(message: str | None) -> str:
    if message is None:
        return UNCHECKED
    return f'{REFUSED}: "{message.strip()}"' if message else REFUSED
