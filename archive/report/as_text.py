"""An inspection → text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from archive.base.errors import counted, one_line, shown
from archive.container.serialization_id import PLATFORMS
from archive.formats.record_kinds import RecordKind
from archive.report.compiled_text import compiled_table
from archive.report.fitted_table import FittedTable
from archive.report.programs_text import programs_table
from archive.report.texts import first_of, runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.console import ConsoleRenderable

    from archive.describe.inspect import Inspection
    from archive.reader.provenance import Provenance

MAX_ROOT = 4096
"""Characters of the root folder's name that are shown."""
OF_COMPILED = {RecordKind.CPP, RecordKind.KERNELS}
"""Records of compiled models that are debug info where a companion holds them."""
NO_ID = {
    "": "not known: a record cannot be read",
    None: "not computed: it takes all bytes of the file; of a copy on disk, `inspect` shows it",
}
"""Words in the place of an archive id."""


def inspection_text(facts: Inspection) -> Group:
    """An inspection as text: the archive as a whole, a table of its records, and its handles."""
    share = facts.debug_bytes / facts.size
    debug = sum(one.kind.is_debug or one.kind in OF_COMPILED for one in facts.records.values())
    what = facts.companion or f"{facts.what}, version {facts.version or 'not given'}"
    origin = [] if facts.origin is None else _origin(facts.origin, migrated=facts.migrated)
    head = [
        f"{facts.file}: {facts.size:,} bytes, {what}",
        f"root {shown(facts.root, MAX_ROOT)}, top module {facts.top or 'not recorded'}",
        *origin,
        *([] if facts.companion else _identity(facts)),
        (
            f"{counted(len(facts.records), 'record')}, {debug:,} of debug info: "
            f"{facts.debug_bytes:,} bytes stored ({share:.0%})"
        ),
        (
            f"{counted(facts.rows, 'source range')} in {counted(facts.sources, 'source')}, "
            f"{counted(len(facts.handles), 'debug handle')}"
        ),
        "",
    ]
    if facts.told:
        head.insert(1, facts.told)
    tail = [""]
    if facts.handles:
        tail.append(f"debug handles: {runs(facts.handles)}")
    if facts.prefix:
        tail.append(f"unique handles: they name the archive, {facts.prefix}")
    tail += [f"method {name}: {count:,} handles" for name, count in facts.methods.items()]
    tail += [
        f"lowered {path or '(the top module)'}: backend {state.backend}, "
        + (f"handles {runs(state.handles)} in its blob" if state.handles else "no handles in its blob")
        for path, state in facts.lowered.items()
    ]
    if facts.effects is not None:
        tail.append(f"effects of {counted(len(facts.effects), 'method')}: {_effects(facts.effects)}")
    tables: list[ConsoleRenderable] = []
    if facts.programs:
        tables += [programs_table(facts.programs), Text()]
    if facts.compiled:
        tables += [compiled_table(facts.compiled), Text()]
    return Group(*_lines(head), *tables, _records(facts), *_lines(tail))


def _lines(lines: Iterable[str]) -> Iterator[Text]:
    return (Text(one_line(line)) for line in lines)


def _identity(facts: Inspection) -> list[str]:
    """The archive id, which companions name; and the platforms whose rules give the serialization id."""
    lines = [f"archive id {facts.archive_id or NO_ID[facts.archive_id]}"]
    if facts.platforms is not None:
        libraries = {platform.name: platform.library for platform in PLATFORMS}
        names = " or ".join(f"{name} ({libraries[name]})" for name in facts.platforms)
        lines.append(f"serialization id as PyTorch writes it on {names or 'no platform known here'}")
    return lines


def _effects(effects: Mapping[str, int]) -> str:
    """The number of effects a method; of many methods, those of the first."""
    return first_of([f"{method} {count:,}" for method, count in effects.items()], "methods")


def _origin(origin: Provenance, *, migrated: bool) -> list[str]:
    """The releases that may have written the archive, and the signs against them."""
    signs, against = len(origin.evidence), len(origin.against)
    said = f"of {origin}, as {f'{signs - against} of' if against else 'all'} {signs} signs say"
    if migrated:
        return [f"{said}; migrated: `debug-archive migrate` can give what it was"]
    return [said, *(f"  but {one}" for one in origin.against)]


def _records(facts: Inspection) -> FittedTable:
    listing = FittedTable(
        [("record", "name"), ("bytes", "number"), ("stored", "number"), ("kind", "text"), ("holds", "text")]
    )
    for name, record in facts.records.items():
        kind = Text(record.kind, style="bold" if record.kind.is_debug else "")
        listing.add(one_line(name), f"{record.size:,}", f"{record.stored_size:,}", kind, Text(record.holds))
    return listing
