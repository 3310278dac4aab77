"""What ``inspect`` prints: an archive, another zip, side effects, or a line for each of many."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from archive.base.errors import counted, one_line, shown
from archive.container.serialization_id import PLATFORMS
from archive.describe.listing import ZipListing
from archive.describe.runtime.blocks import DumpInspection
from archive.describe.tensor_listing import TensorListing
from archive.formats.record_kinds import Group
from archive.reader.recognition import FileKind
from archive.render.fitted_table import Bold, FittedTable
from archive.render.texts import first_of, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.base.tables import Holds
    from archive.describe.effects import EffectFacts, EffectsInspection, GuardFacts
    from archive.describe.executorch import ExecutorchMethod
    from archive.describe.inspect import Inspection, LoweredFacts
    from archive.describe.listing import TensorFacts
    from archive.describe.program_facts import CompiledFacts, InstructionFacts, ProgramSummary
    from archive.describe.tensor_listing import ClassFacts
    from archive.formats.tensor_files.described import Value
    from archive.reader.provenance import Provenance
    from archive.render.fitted_table import Printed

    Contents = Inspection | ZipListing | TensorListing | DumpInspection
    """What is printed of one file."""

MAX_VALUE = 80
"""Characters of a text of metadata that are shown."""
MAX_ROOT = 4096
"""Characters of the root folder's name that are shown."""
NO_ID = {
    "": "not known: a record cannot be read",
    None: "not computed: it takes all bytes of the file; of a copy on disk, `inspect` shows it",
}
"""Words in the place of an archive id."""
HELD = {
    FileKind.EXPORTED: "programs",
    FileKind.LEGACY_EXPORTED: "programs",
    FileKind.AOTI: "models",
    FileKind.ETRECORD: "programs or methods",
}
"""What ``unread`` is of."""
MOST_ROWS = 1000
"""Methods or blocks in a table."""
LONGEST_ALIGNED = 60
"""Characters of the longest statement that moves the column of the model's lines to the right."""


# --- an archive


def inspection_text(facts: Inspection) -> Printed:
    """An inspection as text: the archive as a whole, a table of its records, and its handles."""
    share = facts.debug_bytes / facts.size
    debug = sum(bool(facts.companion) or one.kind.group is Group.DEBUG for one in facts.records.values())
    what = facts.companion or f"{facts.what}, version {facts.version or 'not given'}"
    origin = [] if facts.origin is None else _origin(facts.origin, migrated=facts.migrated)
    is_of_programs = bool(facts.companion) and not facts.records
    of_torchscript = [
        f"root {shown(facts.root, MAX_ROOT)}, top module {facts.top or 'not recorded'}",
        *origin,
        *([] if facts.companion else _identity(facts)),
        (
            f"{counted(len(facts.records), 'record')}, {debug:,} of debug info: "
            f"{facts.debug_bytes:,} bytes stored ({share:.0%})"
        ),
        f"{counted(facts.rows, 'source range')} in {counted(facts.sources, 'source')}, {_handles(facts)}",
    ]
    head = [f"{facts.file}: {facts.size:,} bytes, {what}", *([] if is_of_programs else of_torchscript), ""]
    head[1:1] = [*([facts.advice] if facts.advice else []), *_imports(facts.imports)]
    tail = [""]
    if facts.handles:
        tail.append(f"debug handles: {runs(facts.handles)}")
    if facts.prefix:
        tail.append(f"unique handles: they name the archive, {facts.prefix}")
    tail += [f"method {name}: {counted(count, 'handle')}" for name, count in facts.methods.items()]
    tail += [
        f"lowered {path or '(the top module)'}: backend {state.backend}, {_in_blob(state)}"
        for path, state in facts.lowered.items()
    ]
    if facts.effects is not None:
        counts = [f"{method} {count:,}" for method, count in facts.effects.items()]
        tail.append(f"effects of {counted(len(counts), 'method')}: {first_of(counts, 'methods')}")
    records = FittedTable([*_RECORD, ("holds", "text")])
    for name, record in facts.records.items():
        kind = Bold(record.kind) if record.kind.group is Group.DEBUG else record.kind
        records.add(name, record.size, record.stored_size, kind, record.holds)
    tables = _tables(facts, "programs", "compiled")
    partitions = [*_partitions(facts.programs)]
    if is_of_programs:
        return [*head, *tables, *partitions]
    return [*head, *tables, records, *([""] if partitions else []), *partitions, *tail]


MOST_NODES = 6
"""Nodes of a lowered part that are listed."""
_RECORD: list[tuple[str, Holds]] = [
    ("record", "name"),
    ("bytes", "number"),
    ("stored", "number"),
    ("kind", "text"),
]


def _tables(facts: Contents, *names: str) -> Iterator[str | FittedTable]:
    """Tables of what a file has besides its records, each with an empty line below."""
    for name in names:
        if rows := getattr(facts, name):
            yield _TABLES[name](rows)
            yield ""


def _in_blob(state: LoweredFacts) -> str:
    """The debug handles in the blob of a lowered module, in words."""
    found = f"handles {runs(state.handles)} in its blob" if state.handles else "no handles in its blob"
    if not state.unread:
        return found
    unread = f"{state.unread}, whose handles cannot be read"
    return f"{found}, and {unread}" if state.handles else f"{unread}, in its blob"


def _identity(facts: Inspection) -> list[str]:
    """The archive id, which companions name; and the platforms whose rules give the serialization id."""
    lines = [f"archive id {facts.archive_id or NO_ID[facts.archive_id]}"]
    if facts.platforms is not None:
        libraries = {platform.name: platform.library for platform in PLATFORMS}
        names = " or ".join(f"{name} ({libraries[name]})" for name in facts.platforms)
        lines.append(f"serialization id as PyTorch writes it on {names or 'no platform known here'}")
    return lines


def _handles(facts: Inspection) -> str:
    """How many debug handles there are: those with a source, or else those that instructions have without."""
    of_methods = sum(facts.methods.values())
    if facts.handles or not of_methods:
        return counted(len(facts.handles), "debug handle")
    return f"{counted(of_methods, 'debug handle')} of instructions, whose source is in no record of this file"


def _origin(origin: Provenance, *, migrated: bool) -> list[str]:
    """The releases that may have written the archive, and the signs against them."""
    signs, against = len(origin.evidence), len(origin.against)
    said = f"of {origin}, as {f'{signs - against} of' if against else 'all'} {signs} signs say"
    if migrated:
        return [f"{said}; migrated: `debug-archive migrate` can give what it was"]
    return [said, *(f"  but {sign}" for sign in origin.against)]


def contents_text(facts: Contents) -> Printed:
    """What a file holds, as text."""
    if isinstance(facts, ZipListing):
        return listing_text(facts)
    if isinstance(facts, DumpInspection):
        return dump_text(facts)
    return tensors_text(facts) if isinstance(facts, TensorListing) else inspection_text(facts)


# --- a file of tensors that isn't a zip


def _imports(names: Sequence[str] | None) -> list[str]:
    """A line about what the pickles import, if ``weights_only`` refuses it."""
    if not names:
        return []
    some = first_of([one_line(name) for name in names], "names")
    return [f"its pickles import {some}: `torch.load` refuses that with `weights_only`, and else runs it"]


def tensors_text(facts: TensorListing) -> Printed:
    """A listing as text: what it says of the model, its tensors, and its other records."""
    head = [f"{facts.file}: {facts.size:,} bytes, {facts.what}", facts.advice]
    if len(facts.files) > 1:
        others = [f"{one_line(name)} ({size:,} bytes)" for name, size in facts.files.items()]
        head.append(f"in {counted(len(others), 'file')}: {first_of(others, 'files')}")
    head += _imports(facts.imports)
    if facts.missing:
        missing = first_of([one_line(name) for name in facts.missing], "files")
        head.append(f"not there: {missing}; tensors in it have no storage here")
    used = {tensor.storage for tensor in facts.tensors.values()}
    records = FittedTable(_RECORD)
    for name, record in facts.records.items():
        if name not in used:
            records.add(name, record.size, record.stored_size, record.kind)
    methods = _executorch_tables(facts.executorch_methods) if facts.executorch_methods else ()
    return [*head, "", *methods, *_tables(facts, "metadata", "sources", "tensors"), records]


def _metadata_table(metadata: Mapping[str, Value]) -> FittedTable:
    table = FittedTable([("metadata", "name"), ("value", "text")])
    for key, value in metadata.items():
        table.add(key, shown(value, MAX_VALUE) if isinstance(value, str) else f"{value}")
    return table


def _classes_table(classes: Sequence[ClassFacts]) -> FittedTable:
    table = FittedTable([("class", "name"), ("bytes of source", "number"), ("file", "text")])
    for one in classes:
        table.add(one.name, one.bytes, one.file)
    return table


def _executorch_tables(methods: Mapping[str, ExecutorchMethod]) -> Iterator[str | FittedTable]:
    """The methods of an ExecuTorch program, and what they call."""
    table = FittedTable(
        [
            *(("method", "name"), ("inputs", "text"), ("outputs", "text")),
            *(("instructions", "number"), ("with frames", "number"), ("planned bytes", "number")),
        ]
    )
    called = FittedTable([("calls of", "name"), ("method", "name"), ("calls", "number")])
    for name, one in methods.items():
        inputs, outputs = ", ".join(one.inputs), ", ".join(one.outputs)
        table.add(name, inputs, outputs, one.instructions, one.framed, sum(one.planned_bytes))
        for callee, count in (*one.backends.items(), *one.operators.items()):
            called.add(callee, name, count)
    yield from (table, "", called, "")


# --- a zip that isn't an archive


def listing_text(facts: ZipListing) -> Printed:
    """A listing as text: the zip's kind, its tensors, and its files."""
    head = [f"{facts.file}: {facts.size:,} bytes, {facts.what}", facts.advice]
    head += _imports(facts.imports)
    if facts.unread:
        head.append(f"its {HELD.get(facts.kind, 'tensors')} are not known: {facts.unread}")
    files = FittedTable([("file", "name"), *_RECORD[1:]])
    for name, record in facts.records.items():
        files.add(name, record.size, record.stored_size, record.kind)
    tables = _tables(facts, "tensors", "programs", "compiled", "methods")
    partitions = [*_partitions(facts.programs)]
    return [*head, "", *tables, files, *([""] if partitions else []), *partitions]


def _tensors_table(tensors: Mapping[str, TensorFacts]) -> FittedTable:
    table = FittedTable(
        [("tensor", "name"), ("dtype", "text"), ("shape", "text"), ("bytes", "number"), ("storage", "text")]
    )
    for path, tensor in tensors.items():
        shape = " x ".join(map(str, tensor.shape)) or "scalar"
        table.add(path or "(the object)", tensor.dtype, shape, tensor.bytes, tensor.storage)
    return table


# --- an ETDump


def dump_text(facts: DumpInspection) -> Printed:
    """An ETDump as text: its kind, and a table of its blocks; of many, the first."""
    head = [f"{facts.file}: {facts.size:,} bytes, {facts.what}", facts.advice, ""]
    headings = ("input", "instructions", "backends' notes", "values", "allocations", "ticks")
    table = FittedTable.of("block", *headings)
    for block in facts.blocks[:MOST_ROWS]:
        counts = block.instructions, block.notes, block.values, block.allocations
        table.add(block.name, block.input, *counts, block.ticks)
    if rest := facts.blocks[MOST_ROWS:]:
        of_rest = ((block.instructions, block.notes, block.values, block.allocations) for block in rest)
        table.add(f"[{len(rest):,} more blocks]", "", *map(sum, zip(*of_rest, strict=True)), "")
    return [*head, table]


# --- programs, methods and compiled models


def _programs_table(programs: Mapping[str, ProgramSummary]) -> FittedTable:
    table = FittedTable.of("program", "nodes", "subgraphs", "traced", "modules", "metadata bytes")
    table.columns = [table.columns[0], ("PyTorch", "text"), ("schema", "text"), *table.columns[1:]]
    for name, facts in programs.items():
        counts = facts.nodes, facts.graphs, facts.traced, facts.modules, facts.metadata_bytes
        table.add(name, facts.release, facts.schema, *counts)
    return table


def _partitions(programs: Mapping[str, ProgramSummary]) -> Iterator[str]:
    """A line on each part of a program that a backend runs; PyTorch runs the rest."""
    lowered = [each for program in programs.values() for each in program.lowered.items()]
    for name, part in lowered:
        nodes = ", ".join(f"{node} {handle}" for node, handle in islice(part.nodes.items(), MOST_NODES))
        more = f" and {len(part.nodes) - MOST_NODES:,} more" if len(part.nodes) > MOST_NODES else ""
        handles = f"nodes with handles {nodes}{more}" if nodes else "handles of its nodes not in this file"
        yield f"lowered {name}: backend {part.backend or '(not recorded)'}, {handles}"


def _methods_table(methods: Mapping[str, InstructionFacts]) -> FittedTable:
    """Of many methods, the first."""
    table = FittedTable(
        [("method", "name"), ("instructions", "number"), ("debug handles", "number"), ("backends", "text")]
    )
    for name, method in islice(methods.items(), MOST_ROWS):
        backends = ", ".join(f"{backend} {count:,}" for backend, count in method.backends.items())
        table.add(name, method.instructions, method.handles, backends)
    if rest := [*methods.values()][MOST_ROWS:]:
        sums = sum(method.instructions for method in rest), sum(method.handles for method in rest)
        table.add(f"[{len(rest):,} more methods]", *sums, "")
    return table


def _compiled_table(models: Mapping[str, CompiledFacts]) -> FittedTable:
    """The last three columns are bytes."""
    table = FittedTable.of("compiled model", "kernels", "traced", "C++ code", "shared object", "mapped")
    table.columns = [table.columns[0], ("for", "text"), *table.columns[1:]]
    for name, facts in models.items():
        counts = (facts.kernels, facts.traced) if facts.has_kernels else (None, None)
        table.add(name, facts.target, *counts, facts.code_bytes, facts.object_bytes, facts.mapped_bytes)
    return table


_TABLES: dict[str, Callable[..., FittedTable]] = {
    "metadata": _metadata_table,
    "sources": _classes_table,
    "tensors": _tensors_table,
    "programs": _programs_table,
    "compiled": _compiled_table,
    "methods": _methods_table,
}
"""The table of each attribute of facts that has one."""


# --- side effects


def effects_lines(facts: EffectsInspection) -> Iterator[str]:
    """The side effects of an archive's methods, their guards, and the state at capture."""
    names = Counter(method.method for method in facts.methods)
    methods, places = counted(len(names), "method"), counted(len(facts.state), "place")
    yield f"{facts.file}: effects of {methods}, {places} of state"
    for method in facts.methods:
        if method.entry:
            yield ""
            yield f"# {method.method}, {method.entry} of {names[method.method]}: a call for which"
        elif method.guards:
            yield ""
            yield f"# {method.method} is refused unless"
        if method.guards:
            yield from _noted([(f"assert {guard.text}", _note(guard)) for guard in method.guards])
        yield ""
        yield f"# {method.method}: out = {method.graph}"
        yield from (f"# {note}" for note in method.notes)
        yield from _noted([(effect.text, _note(effect)) for effect in method.effects])
        yield f"return {method.result}"
    if facts.state:
        yield ""
        yield "# state at first"
        yield from (f"{source} = {value}" for source, value in facts.state)


def _noted(noted: list[tuple[str, str]]) -> Iterator[str]:
    """Lines with their notes as comments, aligned in one column."""
    width = max((len(text) for text, note in noted if note and len(text) <= LONGEST_ALIGNED), default=0)
    for text, note in noted:
        yield f"{text:{width}}  # {note}" if note else text


def _note(effect: EffectFacts | GuardFacts) -> str:
    """The model's line of an effect or a guard, or its debug handle if the line is unknown."""
    if effect.where:
        return f"{effect.where}: {effect.line}"
    return f"debug handle {effect.handle}" if effect.handle >= 0 else ""
