"""Saves lowered modules so that stock PyTorch shows the model's own lines when an operation fails.

PyTorch writes the archive; then its debug records are changed:

- The backend's debug handles are added to the call-stack map, which PyTorch has no way to do from Python.
- If each operation is a statement, PyTorch records the statement's range in generated source. This range is
  replaced by one in the model's source. In archives for the lite interpreter, the call-stack map also gets
  the calls on the way. In archives for TorchScript, a source range has no calls: it becomes the innermost
  line that is not PyTorch's own.
- PyTorch numbers the handles of instructions, and warnings, by counters of its process. They are numbered
  again in the order of instructions, so that the same model gives the same bytes.

Last, PyTorch loads the archive (:mod:`archive.backend.lower.loading`).
"""

from __future__ import annotations

import io
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.jit.mobile

from archive.backend.graph.attributes import ENTER
from archive.backend.lower.by_handle import FAILING_OPERATOR
from archive.backend.lower.carried import Carried, read_table
from archive.backend.lower.codegen import padding
from archive.backend.lower.handles import NULL_SPAN, has_source, placed, shown_range, with_owners
from archive.backend.lower.loading import check_loading
from archive.backend.lower.relocate import Attachment
from archive.backend.lower.wrappers import EFFECTS_STATE
from archive.backend.pytorch import temporary_archive
from archive.base.errors import ArchiveError, LoweringError, one_line
from archive.base.strings import decoded
from archive.container.serialization_id import RECORD_NAME, renewed_id
from archive.container.write import member_from, new_member, write_archive
from archive.debuginfo.model import NO_TAG
from archive.formats import bytecode
from archive.formats.archive_id import WOULD_CHANGE, counts
from archive.formats.effects import EFFECTS
from archive.formats.record_kinds import BYTECODE, VERSION_RECORDS
from archive.io.mapped import PartsRead, same_bytes
from archive.io.output import replacing
from archive.normalform.builder import FormBuilder
from archive.normalform.records import DebugRecords
from archive.reader.opening import open as open_archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO

    from archive.container.record import Record
    from archive.container.write import Member
    from archive.debuginfo.sites import Site
    from archive.io.output import Target
    from archive.normalform.columns import Columns
    from archive.reader.archive import Archive

# --- writing an archive again

LOWERED_CODE, CODE_BODY = "code/torch/jit/LoweredModule/", 4
"""Start of the records that hold lowered modules' code, and the blanks before its statements."""


def padded_code(opened: Archive) -> dict[str, bytes]:
    """The code of lowered modules that PyTorch compiles quickly only with a comment after it."""
    padded = {}
    for name, record in opened.records.items():
        if name.startswith(LOWERED_CODE) and name.endswith(".py"):
            source = bytes(record.view())
            if comment := padding(source, CODE_BODY):
                padded[name] = source + comment
    return padded


def rewrite(file: BinaryIO, opened: Archive, records: Mapping[str, bytes]) -> int:
    """Write an archive with records replaced, and new ones before its ``version``; its length in bytes."""
    original = opened.container.records
    members = [
        new_member(name, records[name]) if name in records else member_from(record)
        for name, record in original.items()
        if name != RECORD_NAME
    ]
    added = [new_member(name, data) for name, data in records.items() if name not in original]
    place = next((n for n, name in enumerate(original) if name in VERSION_RECORDS), len(members))
    members[place:place] = added
    if RECORD_NAME in original:
        number = renewed_id(members, original.values(), original[RECORD_NAME].view())
        members.append(new_member(RECORD_NAME, number))
    return write_archive(file, opened.root, _few_in_memory(members))


def _few_in_memory(members: Iterable[Member]) -> Iterator[Member]:
    """Members to write; the memory of those that are written is given back."""
    written = PartsRead()
    for member in members:
        yield member
        written.add(member.data)


# --- saving

CHANGED = (BYTECODE, EFFECTS)
"""Records of the model, not of its debug info, that saving changes."""
NO_CONTEXTS = "ENTER is not supported"
"""PyTorch's words about ``with`` statements, which the lite interpreter lacks."""
LOST = (
    "a lowered part was read by torch.jit.load from a file of save_lowered, and no longer knows the model's "
    "source; read the file by load_archive, or lower the part again before saving"
)


@dataclass(frozen=True, slots=True)
class Saved:
    """A summary of a saved archive.

    Attributes:
        size: the size of the archive, in bytes.
        handles: how many debug handles of backends lead to the model's source.
    """

    size: int
    handles: int


def save_lowered(module: torch.jit.ScriptModule, path: Target, *, force: bool = False) -> Saved:
    """Save a module that is lowered or holds lowered ones.

    PyTorch loads the archive, with the interpreter that it is for, before the target is replaced.

    Args:
        module: a scripted module.
        path: the target; ``*.ptl`` is written for the lite interpreter, any other name for TorchScript.
        force: replace an existing file.

    Raises:
        LoweringError: no part of the module is lowered, a lowered part was read by ``torch.jit.load`` from a
            file of this function (see :func:`~archive.backend.load_archive`), the module is not scripted, or
            PyTorch cannot save it or load the archive.
        ArchiveError: the target exists, or this library does not understand the archive that PyTorch wrote.
        OSError: the target cannot be written.
    """
    lite = Path(path).suffix == ".ptl"
    with replacing(path, force=force) as file:
        saved = write_lowered(module, file, str(path), lite=lite)
        with open_archive(file, name=str(path)) as opened:
            check_loading(file, opened, module, lite=lite)
        return saved


def lowered_archive(module: torch.jit.ScriptModule, *, lite: bool = False) -> bytes:
    """The archive of a module as bytes; see :func:`save_lowered`.

    Args:
        module: a scripted module.
        lite: write it for the lite interpreter.
    """
    buffer = io.BytesIO()
    name = "the lowered module"
    write_lowered(module, buffer, name, lite=lite)
    with open_archive(buffer, name=name) as opened:
        check_loading(buffer, opened, module, lite=lite)
    return buffer.getvalue()


def write_lowered(
    module: torch.jit.ScriptModule,
    file: BinaryIO,
    name: str,
    *,
    lite: bool,
    plain: bool = False,
    extra: Mapping[str, bytes] | None = None,
) -> Saved:
    """Write the archive of a module, without a check that PyTorch loads it; see :func:`save_lowered`.

    Args:
        plain: take a module that holds no lowered one, too.
    """
    if not isinstance(module, torch.jit.ScriptModule):
        raise LoweringError(f"expected a scripted module (torch.jit.script), found a {type(module).__name__}")
    with _saved(module, lite=lite) as path, open_archive(path, name=name) as opened:
        carried = Carried.of(opened.range_table)
        sites, effects = _tables(module, opened, carried)
        if not carried.tables and not plain:
            raise LoweringError("no module in it is lowered; lower it before saving")
        code = {} if lite else padded_code(opened)
        records = {**(extra or {}), **_attached(opened, sites, carried), **effects, **code}
        size = rewrite(file, opened, records)
        with open_archive(file, name=name) as again:
            _check(opened, again, sites, {**(extra or {}), **code})
    return Saved(size, len(sites))


@contextmanager
def _saved(module: torch.jit.ScriptModule, *, lite: bool) -> Iterator[Path]:
    """The archive that PyTorch writes."""
    with ExitStack() as ending:
        try:
            path = ending.enter_context(temporary_archive(module, lite=lite))
        except RuntimeError as error:
            places = ""
            if lite and NO_CONTEXTS in str(error):  # name the model's ``with`` statements
                with temporary_archive(module) as other, open_archive(other) as opened:
                    sites, _ = _tables(module, opened, Carried.of(opened.range_table))
                spans = dict.fromkeys(shown_range(site) for site in sites.values() if site.op == ENTER)
                places = "".join(
                    f'\n  File "{decoded(span.filename)}", line {span.first_line}'
                    f"\n    {decoded(span.line_text.strip())}"
                    for span in spans
                )
            raise LoweringError(f"PyTorch does not save it: {error}{places}") from error
        yield path


def _tables(
    module: torch.jit.ScriptModule, opened: Archive, carried: Carried
) -> tuple[dict[int, Site], dict[str, bytes]]:
    """The tables of all lowered modules: sites by debug handle, and the record of effects by its name.

    An operation without a range takes its caller's. With no caller's either, it has the null range, which
    PyTorch prints nothing for, and keeps its module hierarchy.
    """
    sites: dict[int, Site] = {}
    effects: dict[str, bytes] = {}
    for text in carried.tables:
        own, record = read_table(text)
        if record:
            effects[EFFECTS] = record
        for handle, read in own.items():
            site = placed(read)
            if sites.setdefault(handle, site) != site:
                raise LoweringError(
                    f"debug handle {handle} is that of operations in several lowered modules: lower them "
                    "with one DebugHandles, as `recorder`"
                )
    known = all(carried.is_known(opened, state.type_name) for state in opened.lowered.values())
    # a table that was read from an archive lacks operations without a range
    tableless = (handle for row, handle in carried.statements.items() if not carried.has_table(opened, row))
    if not known or not sites.keys() >= set(tableless):
        raise LoweringError(LOST)
    if effects and not module._c.hasattr(EFFECTS_STATE):
        raise LoweringError(
            "a module that was lowered with effects is saved by itself, neither frozen nor as part of another"
        )
    return sites, effects


def _attached(opened: Archive, sites: Mapping[int, Site], carried: Carried) -> dict[str, bytes]:
    """The records that replace those that PyTorch has written, or are added to them."""
    form = FormBuilder.of(opened.range_table, opened.handle_table, opened.method_table)
    columns = form.columns
    if opened.method_table is not None:
        _renumber(columns, set(sites))
    attachment = Attachment(form)
    sources, rows = np.unique(opened.range_table.source, return_index=True)
    for source, row in zip(sources.tolist(), rows.tolist(), strict=True):
        if source in carried.plain:
            attachment.rename(row, *carried.plain[source])
    statements = {row: handle for row, handle in carried.statements.items() if has_source(sites[handle])}
    sites = with_owners(sites, set(statements.values()))
    for row, handle in statements.items():
        attachment.relocate(row, shown_range(sites[handle]))
    for row, tag in enumerate(columns["handle.tag"].tolist() if "handle.tag" in columns else []):
        if tag == NO_TAG:
            attachment.lead(row, NULL_SPAN, ())
        place = opened.range_table.with_tag(tag)
        if place in statements and (site := sites[statements[place]]).span is not None:
            fails = columns["handle.op"][row] == form.pool.number(FAILING_OPERATOR.encode())
            op = site.op if fails else None
            attachment.lead(row, site.span, site.steps, last="__loweredModule__", op=op)
    for handle, site in sites.items():
        attachment.add(handle, site.op, site.span or NULL_SPAN, site.steps)
    records = dict(DebugRecords(attachment.form()))
    if BYTECODE in opened.records:
        records[BYTECODE] = bytecode.renumber_warnings(opened.tree([BYTECODE]), 0)
    return records


def _renumber(columns: Columns, used_before: set[int]) -> None:
    """Number handles in the order of the instructions, and sort the rows of the call-stack map by them."""
    of_map = columns["handle.handle"]
    used = columns["instruction.handle"]
    order = dict.fromkeys([*used[np.isin(used, of_map)].tolist(), *of_map.tolist()])
    free = (number for number in count() if number not in used_before)
    new = dict(zip(order, free, strict=False))
    columns["instruction.handle"] = np.array([new.get(handle, handle) for handle in used.tolist()], np.int64)
    numbers = np.array([new[handle] for handle in of_map.tolist()], np.int64)
    by_number = np.argsort(numbers)
    of_rows: tuple[str, ...] = ("handle.tag", "handle.op", "handle.stack")
    for name in of_rows:
        columns[name] = columns[name][by_number]
    columns["handle.handle"] = numbers[by_number]
    columns["handle.place"] = np.arange(len(numbers))


def _same(record: Record, other: Record, compared: PartsRead) -> bool:
    """Whether two records have the same bytes."""
    views = record.view(), other.view()
    same = same_bytes(*views)
    for view in views:
        compared.add(view)
    return same


def _check(before: Archive, after: Archive, sites: Mapping[int, Site], padded: Mapping[str, bytes]) -> None:
    """Make sure that an archive has the same model as before, and that its handles lead somewhere."""
    changed = {*CHANGED, *padded}
    original, written = (
        {
            name: record
            for name, record in opened.container.records.items()
            if counts(name) and name not in changed
        }
        for opened in (before, after)
    )
    compared = PartsRead()
    for name in sorted(original.keys() | written.keys()):
        if name not in original or name not in written or not _same(original[name], written[name], compared):
            raise ArchiveError(WOULD_CHANGE, file=before.file, record=one_line(name))
    lost = set(sites) - set(after.handles)
    if lost:
        raise ArchiveError(f"handle {min(lost)} would be lost; nothing is written", file=before.file)
    for handle in after.handles.values():
        for tag in (handle.tag, *(call.tag for call in handle.stack if call.tag != NO_TAG)):
            if after.range_table.with_tag(tag) is None:
                raise ArchiveError(
                    place=f"handle {handle.handle}", expected=f"a range of tag {tag}", found="none"
                )
