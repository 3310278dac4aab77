"""The data of a report page, as one JSON object. Tables are columns: an object of lists of equal length.

::

    {"version": 1, "head": {…}, "sizes": {…}, "sources": {…}, "findings": {…}, "left_out": [text…]}

Positions in texts are UTF-16 units, as JavaScript has them; all other sizes are bytes. Names are values,
never keys. A section that a file does not have is absent; one that cannot be read is, too, and ``left_out``
says so. It also says, in words, what was left out because a page would be too large.

``head``: ``file``, ``kind``, ``release``, ``evidence`` (texts), ``platform``, ``size``, ``debug_bytes``,
``archive_id``, ``top``; ``verify``: how many findings of each severity, null where the file is of a kind that
is not checked; ``leaks``: pairs of a kind and how many texts; ``source``: how much of the model's source the
page shows, :class:`~archive.page.shown.Shown`.

``sizes``, a row for each node of a tree, the file itself first, each behind its parent: ``name``, ``parent``
(row, or -1), ``stored`` (own bytes; all add up to the file's size), ``inflated``, ``elements`` (of tensors),
``old`` (own bytes in an older file; of two files alone), ``kind`` (number in ``kinds``), ``what`` (type and
shape of a tensor), ``record``. ``kinds``: the file, and the first level below it. Below "weights" the parts
of names are joined by ".", elsewhere by "/".

``sources``: ``files``, each with ``name``, ``text``, and ``lines``: pairs of a position and the number of
the line that begins there; those in between follow. ``records``, each with ``name``, ``text``, and a row for
each source range: ``at`` (where its code begins), ``file`` (number, or -1), ``from`` (where it begins in the
file) and ``length``. ``at`` and ``from`` are differences from the row before.

``findings``: ``from`` (verify, leaks, migrate, lite), ``severity``, ``what``, ``record``, ``place``,
``message``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, escaped
from archive.check.verify import CHECKED_KINDS
from archive.describe.sizes import sizes
from archive.page.findings import Findings
from archive.page.head import head
from archive.page.shown import Shown
from archive.page.sizes import SizeTree
from archive.page.sources import ArchiveSources
from archive.reader.recognition import COMPANION, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.describe.sizes import Account
    from archive.reader.archive import Archive

VERSION = 1


def page_facts(
    opened: Archive,
    data: memoryview,
    name: str,
    shown: Shown = Shown.FULL,
    base: Account | None = None,
) -> dict[str, Any]:
    """The data of a page about an archive.

    Args:
        opened: the archive.
        data: the bytes of its file, which several readers open anew, each within its own bounds.
        name: the file's name, without folders.
        shown: how much of the model's source is on the page.
        base: the account of an older file that its sizes are compared with.

    Raises:
        ArchiveError: the zip contradicts itself.
    """
    account = sizes(data, limits=opened.limits)
    making = _Making(opened, shown)
    facts: dict[str, Any] = {"version": VERSION}
    facts["head"] = head(opened, account, name, shown)
    facts["sizes"] = SizeTree(name, account, base).facts()
    if shown.has_text:
        making.add(facts, "sources", making.sources_facts)
    findings = Findings()
    kind = FileKind.COMPANION if opened.recognised is COMPANION else opened.recognised.kind
    if kind in CHECKED_KINDS:
        findings.add_verified(opened, data)
    findings.add_leaks(data, shown, opened.limits)
    findings.add_gates(opened, data, opened.limits)
    facts["findings"] = findings.facts()
    facts["head"] |= {"verify": findings.verified, "leaks": findings.leaks}
    facts["left_out"] = [escaped(text) for text in (*making.left_out, *findings.left_out)]
    return facts


class _Making:
    """Makes the sections that share what was read."""

    def __init__(self, opened: Archive, shown: Shown) -> None:
        self._opened, self._shown = opened, shown
        self.left_out: list[str] = []

    def add(self, facts: dict[str, Any], name: str, make: Callable[[], dict[str, Any] | None]) -> None:
        """Add a section, unless it is empty or cannot be read."""
        try:
            section = make()
        except ArchiveError as error:
            self.left_out.append(f"{name}: {error}")
            return
        if section:
            facts[name] = section

    def sources_facts(self) -> dict[str, Any] | None:
        sources = ArchiveSources(self._opened, self._shown.shown)
        if sources.left_out:
            self.left_out.append(f"sources: {sources.left_out:,} bytes of text")
        return sources.facts() if sources.records or sources.files else None
