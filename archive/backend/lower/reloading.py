"""Loads archives into PyTorch so that nothing that leads to the model's source is lost.

A lowered archive shows the model's own lines instead of generated statements, so ``torch.jit.load`` no longer
knows which statement has which debug handle, nor the calls on the way. The archive does: the range shown for
a statement has a tag that only the call stack of this handle has. Before PyTorch loads the archive, its
source ranges are given what :mod:`archive.backend.lower.carried` describes; PyTorch shows them as before.
"""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import torch

from archive.backend.errors import BackendError
from archive.backend.lower.carried import carrying, marked, write_sites
from archive.backend.lower.codegen import UNAVAILABLE
from archive.backend.lower.handles import shown_range
from archive.backend.lower.relocate import Attachment, show_calls
from archive.backend.lower.saving import LOWERED_CODE, padded_code, rewrite
from archive.backend.pytorch import message_of, not_loaded
from archive.base import memory
from archive.base.errors import LoweringError
from archive.debuginfo.model import NO_TAG
from archive.debuginfo.sites import GENERATED_FILE, CallStep, Site, Span
from archive.formats.effects import EFFECTS
from archive.formats.record_kinds import DELEGATED, code_of
from archive.normalform.builder import FormBuilder
from archive.normalform.records import DebugRecords
from archive.reader.opening import open as open_archive

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable
    from typing import BinaryIO

    from archive.io.mapped import Source as File
    from archive.reader.archive import Archive


def load_archive(source: File, *, companion: File | None = None) -> torch.jit.ScriptModule:
    """Load an archive as ``torch.jit.load`` does, so that nothing that leads to the model's source is lost.

    Tracebacks of the module have the calls that PyTorch would not find. A lowered module keeps its debug
    handles and call stacks: it can be part of a larger module, and :func:`save_lowered` saves it again, for
    TorchScript and for the lite interpreter.

    TorchScript of the archive runs: trust it as you must for ``torch.jit.load``; see SECURITY.md.

    Args:
        source: a TorchScript archive, or one for the lite interpreter: a path, a bytes-like object, or a
            binary file.
        companion: its debug info, if that was split off.

    Raises:
        LoweringError: it holds lowered modules, and was not saved by :func:`save_lowered`.
        ArchiveError: the archive cannot be read, or PyTorch refuses it.
        BackendError: a backend that the module needs is not available.
    """
    with open_archive(source, companion=companion) as opened, memory.charged(opened.allowance):
        return reloaded(opened).module


class Reloaded(NamedTuple):
    """A module that knows all that leads to the model's source.

    Attributes:
        calls: calls that PyTorch would not have found a range for.
    """

    module: torch.jit.ScriptModule
    calls: int


def reloaded(opened: Archive) -> Reloaded:
    """The module of an archive; see :func:`load_archive`."""
    with TemporaryDirectory() as folder:  # in memory, the archive would take the model's size again
        path = Path(folder) / "archive"
        with path.open("w+b") as file:
            calls = write_reloadable(opened, file)
        return Reloaded(loaded_by_pytorch(path, opened.file), calls)


def loaded_by_pytorch(file: io.BytesIO | Path, name: str) -> torch.jit.ScriptModule:
    """The module of an archive."""
    try:
        return torch.jit.load(file)
    except Exception as error:  # broken archives make PyTorch raise errors of any kind
        if message_of(error).endswith(UNAVAILABLE):
            raise BackendError(UNAVAILABLE, name) from error
        raise not_loaded(error, name) from error


def write_reloadable(opened: Archive, file: BinaryIO) -> int:
    """Write the archive from which PyTorch loads all that leads to the model's source.

    Returns:
        How many calls PyTorch would not have found a range for.
    """
    table = opened.range_table
    form = FormBuilder.of(table, opened.handle_table, opened.method_table)
    names = map(code_of, table.names)
    codes = [bytes(opened.records[name].view()) if name in opened.records else b"" for name in names]
    calls = show_calls(form, codes)
    attachment = Attachment(form)
    delegated = _Delegated(opened)
    if opened.lowered or delegated.sites:
        delegated.check()
        _carry(attachment, delegated)
    rewrite(file, opened, {**DebugRecords(attachment.form()), **padded_code(opened)})
    return calls


def _carry(attachment: Attachment, delegated: _Delegated) -> None:
    """Let the sources of lowered modules carry their debug handles and tables."""
    table = delegated.opened.range_table
    for record, name in enumerate(table.names):
        if name == DELEGATED:
            continue  # the ranges of handles, not of code
        statements = delegated.statements(table.rows(record))
        if not statements and not name.startswith(LOWERED_CODE):
            continue
        text = delegated.table_of(statements.values())
        first = min(statements, default=None)
        for row, handle in statements.items():
            span = shown_range(delegated.sites[handle])
            attachment.relocate(row, marked(span, handle, text if row == first else ""))
        for _, rows in groupby(table.rows(record), key=lambda row: int(table.source[row])):
            row = next(rows)
            source = table.source_range(row).source
            if row not in statements and bytes(source.filename or b"") == GENERATED_FILE.encode():
                attachment.rename(row, bytes(source.text) + carrying(text).encode(), GENERATED_FILE.encode())


class _Delegated:
    """The debug handles of the lowered modules of an archive, and their operations."""

    def __init__(self, opened: Archive) -> None:
        self.opened = opened
        self._spans: dict[int, Span | None] = {}
        table = opened.range_table
        rows = table.rows(table.numbers[DELEGATED]) if DELEGATED in table.numbers else ()
        tags = {int(table.tag[row]) for row in rows}
        methods = opened.methods.values() if opened.method_table is not None else ()
        others = {handle for handles in methods for handle in handles}
        delegated = (handle for handle, entry in opened.handles.items() if entry.tag in tags)
        self.sites = {handle: self._site(handle) for handle in delegated if handle not in others}

    def check(self) -> None:
        """Make sure that the debug info is there.

        Raises:
            LoweringError: it is not.
        """
        known = all(
            not state.handles or not self.sites.keys().isdisjoint(state.handles)
            for state in self.opened.lowered.values()
        )
        if not known or not len(self.opened.range_table):
            raise LoweringError(
                f"{self.opened.file} has lowered modules, but not what their debug handles lead to: give or "
                "join its companion, if it was split off; PyTorch's own lowering has them only in .ptl files"
            )

    def _site(self, handle: int) -> Site:
        entry = self.opened.handles[handle]
        steps = (
            CallStep(
                str(call.function or ""),
                None if call.module is None else str(call.module.type_name),
                None if call.module is None else str(call.module.instance),
                self._span(call.tag),
            )
            for call in entry.stack
        )
        return Site(str(entry.op or ""), self._span(entry.tag), tuple(steps))

    def _span(self, tag: int) -> Span | None:
        """The range with a tag; its ``owner`` is the tag, so that equal ranges of two tags differ."""
        if tag not in self._spans:
            row = self.opened.range_table.with_tag(tag)
            self._spans[tag] = None if row is None else _span(self.opened, row, tag)
        return self._spans[tag]

    @cached_property
    def _by_tag(self) -> dict[int, int | None]:
        """The handle whose operation shows the range of a tag; None if several do."""
        handles: dict[int, int | None] = {}
        for handle, site in self.sites.items():
            tag = shown_range(site).owner
            handles[tag] = None if tag in handles else handle
        handles.pop(NO_TAG, None)
        return handles

    def statements(self, rows: range) -> dict[int, int]:
        """The debug handle of each of some rows that is a statement."""
        tags = self.opened.range_table.tag
        handles = {row: self._by_tag[tag] for row in rows if (tag := int(tags[row])) in self._by_tag}
        if None in handles.values():
            raise LoweringError(
                f"{self.opened.file} does not distinguish the operations of a line: it was not saved by "
                "save_lowered; lower the model again"
            )
        return {row: handle for row, handle in handles.items() if handle is not None}

    def table_of(self, handles: Iterable[int]) -> str:
        """The table of the lowered modules that some handles are in; without handles, of all.

        Operations that no module's state names, as constants, are in every table.
        """
        own = set(handles)
        states = [set(state.handles) for state in self.opened.lowered.values()]
        other = {handle for state in states if own and not own & state for handle in state}
        record = self.opened.records[EFFECTS].view() if EFFECTS in self.opened.records else b""
        sites = {handle: site for handle, site in self.sites.items() if handle not in other}
        return write_sites(sites, bytes(record))


def _span(opened: Archive, row: int, tag: int) -> Span | None:
    span = opened.range_table.source_range(row)
    source = span.source
    if source.is_null or not len(source.text):
        return None
    text, filename = bytes(source.text), bytes(source.filename or b"")
    return Span(text, filename, source.starting_line, span.start, span.end, tag)
