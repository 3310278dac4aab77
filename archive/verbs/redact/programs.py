"""Exported programs with other metadata: those of ``.pt2`` archives and of ETRecords.

======================  =====================================================================================
metadata of a node      what becomes of it
======================  =====================================================================================
``stack_trace``         other files; with ``--source none`` no lines of code. One that is none as Python
                        prints them goes
``custom``, other keys  other paths; they are notes in free text, and go with ``--source none``
all others              other paths, where there are some. Classes and functions stay; ids of a run are
                        numbered anew if that is asked for
======================  =====================================================================================

A program that ``json.dumps`` did not write is written by it, as PyTorch would. Notes about a whole graph are
like those of nodes. All else that a program says, PyTorch reads.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from archive.formats.etrecord import GRAPH_ID, HANDLE
from archive.formats.exported.canonical import Id, Numbering
from archive.formats.exported.json_text import read_json
from archive.formats.exported.kinds import CUSTOM, KIND_BY_KEY, STACK_TRACE
from archive.formats.exported.rewriting import with_metadata
from archive.verbs.redact.texts import paths_in, renamed_in
from archive.verbs.redact.traces import encoded, files_in, note_gone, redacted_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from archive.reader.archive import Archive
    from archive.verbs.redact.rules import Removed, Rules

NOTES = "metadata"
"""The notes about a graph, beside it."""
SLASHES = re.compile(r"[/\\]")
NUMBER = re.compile(rb"[0-9]{1,20}")


def redacted_programs(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes | None]:
    """The records of all programs with other metadata, by name.

    Raises:
        ArchiveError: one of them is no program.
        LimitError: they would take more memory than allowed.
    """
    if not opened.programs or not (rules.maps or {rules.paths, rules.source, rules.ids} != {"keep"}):
        return {}
    return _Programs(opened, rules, removed).records()


class _Programs:
    """The programs of an archive.

    Args:
        opened: the archive.
        rules: what is rewritten.
        removed: takes what is gone.
    """

    def __init__(self, opened: Archive, rules: Rules, removed: Removed) -> None:
        self._opened, self._rules, self._removed = opened, rules, removed
        self._programs = {record: opened.programs[name] for name, record in opened.programs.records.items()}
        self._numbering = Numbering()
        self._names: Mapping[bytes, bytes] = {}

    def records(self) -> dict[str, bytes | None]:
        """The records by name."""
        trees = {record: self._tree(record) for record in self._programs}
        self._names = self._rules.renamed(
            path for record, tree in trees.items() for path in self._paths(record, tree)
        )
        self._removed.renamed(dict(self._names))
        made: dict[str, bytes | None] = {}
        for record, tree in trees.items():
            metadata = [self._metadata(site.metadata) for site in self._programs[record].sites.values()]
            if notes := _notes(tree):
                tree["graph_module"][NOTES] = self._metadata(notes)
            made[record] = data = with_metadata(tree, metadata)
            self._opened.allowance.take(len(data), "bytes of a record", record=record)
        return made | self._graph_id()

    def _tree(self, record: str) -> Any:  # noqa: ANN401 (JSON)
        return read_json(self._opened.records[record].view(), self._opened.allowance)

    def _paths(self, record: str, tree: Any) -> Iterator[bytes]:  # noqa: ANN401 (JSON)
        sites = self._programs[record].sites.values()
        for metadata in (*(site.metadata for site in sites), _notes(tree)):
            for key, text in metadata.items():
                if key == STACK_TRACE:
                    yield from files_in(text)
                elif SLASHES.search(text):
                    yield from (path for one in strings_in(text) for path in paths_in(encoded(one)))

    def _metadata(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """Metadata by the rules."""
        texts = {key: self._text(key, text) for key, text in metadata.items()}
        kept = {key: text for key, text in texts.items() if text is not None}
        return self._numbering.numbered(kept) if self._rules.ids == "anew" else kept

    def _text(self, key: str, text: str) -> str | None:
        if key == STACK_TRACE:
            return redacted_trace(text, self._rules, self._names, self._removed)
        is_note = key == CUSTOM or key not in KIND_BY_KEY.keys() | {HANDLE}
        if is_note and self._rules.source == "none":
            for one in strings_in(text):
                note_gone(one, self._removed)
            return None
        return changed_strings(text, self._renamed) if SLASHES.search(text) else text

    def _renamed(self, text: str) -> str:
        return str(renamed_in(encoded(text), self._names), "utf-8", "surrogatepass")

    def _graph_id(self) -> dict[str, bytes | None]:
        """The id of an ETRecord's graph, which its nodes have, too."""
        record = self._opened.records.get(GRAPH_ID) if self._rules.ids == "anew" else None
        if record is None or not NUMBER.fullmatch(found := bytes(record.view())):
            return {}
        return {GRAPH_ID: str(self._numbering.number(Id.GRAPH, found.decode())).encode()}


def _notes(tree: Any) -> dict[str, str]:  # noqa: ANN401 (JSON)
    """The notes about a program's graph."""
    notes = tree["graph_module"].get(NOTES)
    is_known = isinstance(notes, dict) and all(isinstance(one, str) for one in notes.values())
    return notes if is_known else {}


def strings_in(text: str) -> list[str]:
    """The strings of a text that is JSON, keys, too; of another one itself."""
    found: list[str] = []

    def take(one: str) -> str:
        found.append(one)
        return one

    changed_strings(text, take)
    return found


def changed_strings(text: str, change: Callable[[str], str]) -> str:
    """A text with other strings: those of its JSON if that is what it is, else itself as a whole."""
    try:
        tree = json.loads(text) if text[:1] in ("{", "[") else text
        changed = _changed(tree, change)
    except (ValueError, RecursionError):
        return change(text)
    return text if changed == tree else changed if isinstance(changed, str) else json.dumps(changed)


def _changed(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_changed(one, change) for one in value]
    if isinstance(value, dict):
        return {change(key): _changed(one, change) for key, one in value.items()}
    return value
