"""Lowered modules saved so that stock PyTorch shows the model's own lines when an operation fails.

PyTorch records where the statements of a lowered module stand: in generated source. Each operation's row is
led to the model's source instead, from where it was lowered: in archives of the lite interpreter by the
call-stack map, with the calls on the way; in those of TorchScript by the source ranges of generated code,
which have no place for calls.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from archive.attaching import Attachment
from archive.backend.errors import LoweringError
from archive.backend.lowering import DEBUG, LOWERED
from archive.backend.tables import read_table
from archive.container import member_from, new_member, write_archive
from archive.errors import ArchiveError
from archive.formats.archive_id import archive_id
from archive.formats.companion import DebugRecords, Facts
from archive.formats.companion.handles import pack_handles
from archive.formats.companion.pool import Pool, table_of
from archive.formats.companion.ranges import pack_ranges
from archive.formats.companion.records import GENERATIONS
from archive.formats.kinds import code_of
from archive.model import Generation
from archive.opening import open as open_archive
from archive.serialization_id import RECORD_NAME, serialization_id
from archive.writer import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from archive.attaching import Span, Step
    from archive.numbering import Ints
    from archive.reader import Archive
    from archive.writer import Target

    Operations = dict[int, tuple[Span, list[Step]]]
    Tables = dict[tuple[str, str], Operations]
    Sources = dict[bytes, dict[str, Operations]]

GENERATED = "<string>"
CLASS = re.compile(rb"^class (\w+)\(Module\):", re.MULTILINE)
METHOD = re.compile(rb"\s*def (\w+)\(")


@dataclass(frozen=True, slots=True)
class Saved:
    """What was saved.

    Attributes:
        size: of the archive, in bytes.
        operations: how many operations lead to the model's source.
    """

    size: int
    operations: int


def save_lowered(module: torch.jit.ScriptModule, path: Target, *, force: bool = False) -> Saved:
    """Save a module that holds lowered ones: ``*.ptl`` for the lite interpreter, else for TorchScript.

    Args:
        module: it, or one that holds lowered ones.
        path: the target.
        force: replace an existing file.

    Raises:
        LoweringError: nothing in it was lowered here, or it was read from a file since.
        ArchiveError: the target exists, or PyTorch wrote what is not understood.
        OSError: it cannot be written.
    """
    tables = _tables(module)
    if not tables:
        raise LoweringError("no module in it was lowered in this process; lower it again before saving")
    if Path(path).suffix == ".ptl":
        data = module._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
    else:
        buffer = io.BytesIO()
        torch.jit.save(module, buffer)
        data = buffer.getvalue()
    with replacing(path, force=force) as file, open_archive(data, name=str(path)) as opened:
        records, count = _attached(opened, tables)
        size = _write(file, opened, records)
        with open_archive(file, name=str(path)) as again:
            _check(opened, again)
        return Saved(size, count)


def _tables(module: torch.jit.ScriptModule) -> Tables:
    """The operations of all lowered modules, by class and method."""
    tables: Tables = {}
    left = [module._c]
    while left:
        one = left.pop()
        kind = one._type().annotation_str
        left += [child for _, child in torch._C.ModuleDict(one).items()]
        if LOWERED.match(kind) and one.hasattr(DEBUG) and one.getattr(DEBUG):
            for method, operations in read_table(one.getattr(DEBUG)).items():
                tables[kind, method] = operations
    return tables


def _attached(opened: Archive, tables: Tables) -> tuple[dict[str, bytes], int]:
    """The debug records as they shall be, and how many rows lead to the model's source."""
    pool = Pool()
    columns = pack_ranges(opened.range_table, pool)
    if opened.handle_table is not None:
        columns |= pack_handles(opened.handle_table, pool)
        columns["file.callstacks"] = np.array([GENERATIONS.index(Generation.CALLSTACK_4)])
    attachment = Attachment(columns, pool)
    sources: Sources = {}
    count = _relocate(opened, attachment, tables, sources)
    count += _lead(opened, attachment, columns.get("handle.handle"), sources)
    made = DebugRecords(Facts(b"", attachment.columns(), table_of(pool.strings()), b""))
    return {name: made[name] for name in made}, count


def _lead(opened: Archive, attachment: Attachment, handles: Ints | None, sources: Sources) -> int:
    """Lead the handles of lowered operations to the model's source.

    They are told by the generated source, for PyTorch records no call stack of what is in branches; by their
    class only where several have the same source.
    """
    count = 0
    for row, handle in enumerate([] if handles is None else handles.tolist()):
        entry = opened.handles[handle]
        place = opened.range_table.with_tag(entry.tag)
        if place is None:
            continue
        span = opened.range_table.source_range(place)
        classes = sources.get(bytes(span.source.text), {})
        last = entry.stack[-1].module if entry.stack else None
        known = classes.get("" if last is None else str(last.type_name), {})
        if len(classes) == 1:
            (known,) = classes.values()
        if str(span.source.filename or "") == GENERATED and span.line in known:
            attachment.lead(row, *known[span.line])
            count += 1
    return count


def _relocate(opened: Archive, attachment: Attachment, tables: Tables, sources: Sources) -> int:
    """Lead the rows of lowered modules' generated code to the model's source.

    Args:
        opened: the archive.
        attachment: takes the changes.
        tables: what is known.
        sources: takes what is known by the text of the generated source, and by class.
    """
    table, count = opened.range_table, 0
    for number, name in enumerate(table.names):
        code = opened.records.get(code_of(name))
        module = code_of(name).removeprefix("code/").removesuffix(".py").replace("/", ".")
        if code is None or not any(kind.startswith(f"{module}.") for kind, _ in tables):
            continue
        classes = [(found.start(), found[1].decode()) for found in CLASS.finditer(bytes(code.view()))]
        starts = [start for start, _ in classes]
        for row in table.rows(number):
            span = table.source_range(row)
            within = bisect_right(starts, int(table.offset[row])) - 1
            head = METHOD.match(bytes(span.source.text))
            if within < 0 or head is None or str(span.source.filename or "") != GENERATED:
                continue
            kind = f"{module}.{classes[within][1]}"
            known = tables.get((kind, head[1].decode()), {})
            sources.setdefault(bytes(span.source.text), {})[kind] = known
            if span.line in known:
                attachment.relocate(row, known[span.line][0])
                count += 1
    return count


def _write(file: BinaryIO, opened: Archive, records: Mapping[str, bytes]) -> int:
    """The archive with other debug records; its length in bytes."""
    members = [
        new_member(name, records[name]) if name in records else member_from(record)
        for name, record in opened.records.items()
        if name != RECORD_NAME
    ]
    members.append(new_member(RECORD_NAME, serialization_id(members).encode()))
    return write_archive(file, opened.root, members)


def _check(before: Archive, after: Archive) -> None:
    """Refuse what is not the same model, or has other handles."""
    same = archive_id(before.records) == archive_id(after.records) and list(before.handles) == list(
        after.handles
    )
    if not same:
        raise ArchiveError("would not be the same model; nothing is written", file=before.file)
    for handle in after.handles.values():
        for tag in (handle.tag, *(call.tag for call in handle.stack)):
            if tag >= 0 and after.range_table.with_tag(tag) is None:
                raise ArchiveError(
                    place=f"handle {handle.handle}", expected=f"a range of tag {tag}", found="none"
                )
