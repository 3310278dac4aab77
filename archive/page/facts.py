"""The data of a report page, as one JSON object. Tables are columns: an object of lists of equal length.

::

    {"version": 1, "head": {…}, "sizes": {…}, "sources": {…}, "findings": {…}, "left_out": [text…]}

Positions in texts are UTF-16 units, as in JavaScript; all other sizes are bytes. Names are values, never
keys. A section that a file does not have is absent; so is one that can't be read, and ``left_out`` says so.
It also says, in words, what was left out because a page would be too large.

``head``: ``file``, ``kind``, ``release``, ``evidence`` (texts), ``label`` (of the release that a companion is
of), ``platform``, ``size``, ``debug_bytes``, ``archive_id``, ``top``; ``verify``: how many findings of each
severity, null where the file's kind is not checked; ``leaks``: pairs of a kind and how many texts, null where
the file was not searched; ``not_counted``: the same for kinds that are in nearly every model; ``source``: how
much of the model's source the page shows, :class:`~archive.page.shown.Shown`; ``base``: the older file, only
when two are compared.

``sizes``, a row for each node of a tree, the file itself first, each after its parent: ``name``, ``parent``
(row, or -1), ``stored`` (own bytes; all add up to the file's size), ``inflated``, ``elements`` (of tensors),
``old`` (own bytes in an older file; only when two are compared), ``kind`` (number in ``kinds``), ``what``
(type and shape of a tensor), ``record``. ``kinds``: the file, and the first level below it. Below "weights"
the parts of names are joined by ".", otherwise by "/".

``sources``: ``files``, each with ``name``, ``text``, and ``lines``: pairs of a position and the number of
the line that begins there; those in between follow. ``records``, each with ``name``, ``text``, and a row for
each source range: ``at`` (where its code begins), ``file`` (number, or -1), ``from`` (where it begins in the
file) and ``length``. ``at`` and ``from`` are differences from the row before.

For exported programs and compiled models, ``files`` have the lines that stack traces name; ``records`` are
C++ code, whose rows are lines that call kernels, and kernels.

``changes``, only when two files are compared: what differs in sources and records, as
:mod:`archive.page.changes` says.

``modules``, a row for each, after what it is in: ``path`` ("" for the top; after the program's name, where
PyTorch did not choose that), ``parent`` (row, or -1), ``class``, ``elements`` and ``bytes`` (of all tensors
below it, each once; null where the file doesn't show them), ``effects`` (how many), ``methods``: for each a
name, the number of its record, and where it begins there.

``handles``: ``handle``, ``operator``, ``path`` (of its module), ``file`` and ``line`` of its own range,
``frames``, outermost first: for each the number of a record, a position there, and its place in words; -1
where it is not shown.

``tables``: instructions, nodes, kernels, methods or what they call, each with ``title``, ``columns``
(headings), ``rows`` (a list for each column) and ``links``, for each row: the number of a file, or -1, and a
position there; for what C++ code calls also the number of its record, and a position there; or null.

``values``, on a page that was given some: a row for each line that ran, in the order of the run: ``file``,
``line`` (null where it is not known), ``module`` and ``operator`` with the largest number there, ``value``,
``note`` (what is wrong, in words) and ``links`` as of tables; ``title``, and ``heading`` of the numbers.

``review``, on a page that was asked for one: what :mod:`archive.page.review` says.

``findings``: ``from`` (the command: verify, leaks, migrate, lite, symbolicate), ``severity``, ``what``,
``record``, ``place``, ``message``.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, counted
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.describe.sizes import sizes
from archive.io.mapped import Mapped
from archive.page.changes import Changes
from archive.page.findings import SCRIPTS, Findings
from archive.page.handles import HandleFacts
from archive.page.head import head
from archive.page.kernels import CompiledCode
from archive.page.modules import modules_facts
from archive.page.shown import Shown
from archive.page.sizes import SizeTree
from archive.page.sources import ArchiveSources
from archive.page.tables import KERNELS, TRACED, Table, add_instructions, instructions_table, is_traced
from archive.page.traced import TracedSources
from archive.page.units import plain
from archive.reader.opening import open as open_archive
from archive.reader.recognition import REPORTED_KINDS, FileKind
from archive.reader.recognition.kinds import PARSED_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from archive.describe.sizes import Account
    from archive.io.mapped import Source
    from archive.page.traced import Link, Span
    from archive.reader.archive import Archive

    SectionT = TypeVar("SectionT")

VERSION = 1


def page_facts(
    source: Source,
    name: str,
    shown: Shown = Shown.FULL,
    *,
    companion: Source | None = None,
    base: Account | None = None,
    older: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, Any]:
    """The data of a page about an archive.

    Args:
        source: its file. Each reader opens it again, within its own bounds, and closes it; what one has
            found in its bytes, others don't look for again.
        name: the file's name, without folders.
        companion: the archive's debug info, if that was split off.
        base: the account of an older file that its sizes are compared with.
        older: the sources of that file, which its sources are compared with: see :func:`sources_facts`.
    """
    file, beside = Mapped(source, name), None if companion is None else Mapped(companion)

    def opened() -> Archive:
        other = None if beside is None else beside.data
        return open_archive(file, companion=other, limits=limits, kinds=REPORTED_KINDS)

    account = sizes(file, limits=limits)
    facts: dict[str, Any] = {"version": VERSION}
    with opened() as archive, memory.charged(archive.allowance):
        kind = archive.recognised.kind
        facts["head"] = head(archive, account, name, shown)
        if base is not None:
            facts["head"]["base"] = plain(shown.file(base.file))
        facts["sizes"] = SizeTree(name, account, base).facts()
        making = _Making(archive, shown)
        making.add_sections(facts, account)
        if base is not None and shown.has_text:
            making.add_changes(facts, older)
        if archive.tensor_file is not None and archive.tensor_file.missing:
            beside_it = counted(len(archive.tensor_file.missing), "file")
            making.left_out.append(f"sizes: {beside_it} that the model names beside its own")
    findings = Findings(shown)
    if kind in PARSED_KINDS:
        with opened() if beside else nullcontext() as archive_of_both:
            findings.add_verified(archive_of_both or file, limits)
    findings.add_leaks(file, limits)
    if kind in {*SCRIPTS, FileKind.SPLIT}:
        with opened() as archive, memory.charged(archive.allowance):
            findings.add_gates(archive, file, is_whole=kind in SCRIPTS and beside is None)
    facts["findings"] = findings.facts()
    facts["head"] |= {
        "verify": findings.verified,
        "leaks": findings.leaks,
        "not_counted": findings.not_counted,
    }
    if beside is not None:
        findings.left_out.append("leaks: the companion was not searched: `leaks COMPANION` does that")
    facts["left_out"] = [plain(text) for text in (*making.left_out, *findings.left_out)]
    if beside is not None:
        beside.close()
    file.close()
    return facts


def sources_facts(
    source: Source, account: Account, shown: Shown, *, limits: Limits = DEFAULT_LIMITS
) -> dict[str, Any] | None:
    """The section ``sources`` of a file's page; None where it has none, or cannot be read.

    Args:
        account: the file's.
    """
    facts: dict[str, Any] = {}
    with (
        suppress(ArchiveError),
        open_archive(source, limits=limits, kinds=REPORTED_KINDS) as archive,
        memory.charged(archive.allowance),
    ):
        _Making(archive, shown).add_sections(facts, account)
    return facts.get("sources")


class _Making:
    """Makes the sections that share what was read, if the file has them and they can be read."""

    def __init__(self, opened: Archive, shown: Shown) -> None:
        self._opened, self._shown = opened, shown
        self.left_out: list[str] = []

    def add_sections(self, facts: dict[str, Any], account: Account) -> None:
        """Add modules, sources, handles and tables."""
        if is_traced(self._opened):
            self._add(facts, "modules", lambda: modules_facts(self._opened, account, None))
            self._add_traced(facts)
        else:
            self._add_ranged(facts, account)

    def add_changes(self, facts: dict[str, Any], older: Mapping[str, Any] | None) -> None:
        """Add what differs in the sources from those of an older file."""
        newer = facts.get("sources")
        if newer is None or older is None:
            if newer or older:
                which = "older" if older is None else "newer"
                self.left_out.append(f"changes of source: the {which} file shows no source")
            return
        changes = self._attempt("changes of source", lambda: Changes(older, newer))
        if changes is not None:
            facts["changes"] = changes.facts()
            if changes.left_out:
                self.left_out.append(f"changes of source: {changes.left_out:,} further lines")

    def _add_ranged(self, facts: dict[str, Any], account: Account) -> None:
        """Add what TorchScript's source ranges lead to."""
        opened, has_text = self._opened, self._shown.has_text
        places = self._attempt("sources", lambda: ArchiveSources(opened, self._shown))
        sources = self._attempt("sources", places.facts) if places and has_text else None
        coded = places if sources else None
        self._add(facts, "modules", lambda: modules_facts(opened, account, coded))
        if sources and (sources["files"] or sources["records"]):
            facts["sources"] = sources
        if places is None:
            return
        if places.left_out and has_text:
            self.left_out.append(f"sources: {places.left_out:,} bytes of text")
        handles = HandleFacts(opened, places, linked=sources is not None)
        self._add(facts, "handles", handles.facts)
        if handles.left_out:
            self.left_out.append(f"handles: {handles.left_out:,} handles")
        table = instructions_table()
        rows = self._attempt("instructions", lambda: add_instructions(table, opened, places))
        links = places.links(np.array(rows, np.int64)) if rows and sources else []
        self._add_tables(facts, [(table, links)])

    def _add_traced(self, facts: dict[str, Any]) -> None:
        """Add what the stack traces of nodes and kernels lead to."""
        traced = TracedSources(self._shown)
        made = []
        for table, add in TRACED:
            one = table()
            frames = self._attempt(one.title, partial(add, one, self._opened, traced))
            made.append((one, frames or []))
        sources = traced.facts()
        frames = made[KERNELS][1]
        kernels = list(islice(self._opened.kernels, len(frames))) if frames else []
        code = self._code(dict(zip(kernels, map(traced.span, frames), strict=True)))
        sources["records"] = code.records if code else []
        if (sources["files"] or sources["records"]) and self._shown.has_text:
            facts["sources"] = sources
        link = traced.link if "sources" in facts else lambda _: None
        links: list[list[Link | None]] = [[*map(link, frames)] for _, frames in made]
        if code is not None:
            own = zip(kernels, links[KERNELS], strict=True)
            links[KERNELS] = [code.link(label, to_source) for label, to_source in own]
        self._add_tables(facts, [(table, own) for (table, _), own in zip(made, links, strict=True)])

    def _code(self, spans: dict[str, Span | None]) -> CompiledCode | None:
        """The C++ code of kernels, by the lines that they lead to; None where it is not shown."""
        if not spans or not self._shown.has_text:
            return None
        if not self._shown.has_paths:
            self.left_out.append("C++ code: it has paths in it; --source full shows it")
            return None
        return self._attempt("C++ code", lambda: CompiledCode(self._opened, spans))

    def _add_tables(self, facts: dict[str, Any], tables: list[tuple[Table, list[Link | None]]]) -> None:
        made = [table.facts(links) for table, links in tables if len(table)]
        if made:
            facts["tables"] = made
        self.left_out += (f"{table.title}: {table.left_out:,} rows" for table, _ in tables if table.left_out)

    def _add(self, facts: dict[str, Any], name: str, make: Callable[[], object]) -> None:
        section = self._attempt(name, make)
        if section:
            facts[name] = section

    def _attempt(self, name: str, make: Callable[[], SectionT]) -> SectionT | None:
        """A section; None, with a note why, where it can't be read."""
        try:
            return make()
        except ArchiveError as error:
            self.left_out.append(f"{name}: {error}")
            return None
