"""Exported programs with other metadata: those of ``.pt2`` archives and of ETRecords.

======================  =====================================================================================
metadata of a node      what becomes of it
======================  =====================================================================================
``stack_trace``         other files; with ``--source none`` no lines of code. One that isn't as Python
                        prints them goes
``custom``, other keys  other paths; they are notes in free text, and go with ``--source none``
all others              other paths, where there are some; ids of a run are numbered anew, and names of
                        classes and functions become hashes, if that is asked for
======================  =====================================================================================

A program that ``json.dumps`` did not write is written by it, as PyTorch would. Notes about a whole graph are
like those of nodes. All else that a program says, PyTorch reads.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.json_text import read_json
from archive.formats.exported.canonical import Id, IdNumbering
from archive.formats.exported.node_metadata import CUSTOM, HANDLE, KIND_BY_KEY, STACK_TRACE
from archive.formats.exported.program import with_metadata
from archive.formats.record_kinds import GRAPH_ID
from archive.privacy.redact.names.programs import renamed_metadata
from archive.privacy.redact.texts import (
    encoded,
    files_in,
    note_gone,
    paths_cost,
    paths_in,
    redacted_trace,
    renamed_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from archive.privacy.redact.names import Renamed
    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import Rules
    from archive.reader.archive import Archive

NOTES = "metadata"
"""The notes about a graph, beside it."""
SLASHES = re.compile(r"[/\\]")
NUMBER = re.compile(rb"[0-9]{1,20}")


def redacted_programs(
    opened: Archive, rules: Rules, removed: Removed, renamed: Renamed | None
) -> dict[str, bytes | None]:
    """The records of all programs with other metadata, by name.

    Args:
        removed: takes what is gone.
        renamed: what becomes of names; None where they stay.
    """
    if not opened.programs.records or not rewrites_metadata(rules):
        return {}
    programs = {record: opened.programs[name] for name, record in opened.programs.records.items()}
    for record in programs:
        memory.take(paths_cost(opened.records[record].view()), "paths", record=record)
    trees = {record: read_json(opened.records[record].view()) for record in programs}
    sites = [site.metadata for program in programs.values() for site in program.sites.values()]
    rewritten = RewrittenMetadata([*sites, *map(_notes, trees.values())], rules, removed)
    made: dict[str, bytes | None] = {}
    for record, tree in trees.items():
        metadata = [rewritten.of(site.metadata) for site in programs[record].sites.values()]
        if renamed is not None:
            metadata = [renamed_metadata(texts, renamed.words) for texts in metadata]
        if notes := _notes(tree):
            tree["graph_module"][NOTES] = rewritten.of(notes)
        made[record] = data = with_metadata(tree, metadata)
        memory.take(len(data), "bytes of a record", record=record)
    graph = opened.records.get(GRAPH_ID)
    if graph is not None and rules.ids == "anew" and NUMBER.fullmatch(number := bytes(graph.view())):
        made[GRAPH_ID] = str(rewritten.numbering.number(Id.GRAPH, number.decode())).encode()
    return made


def rewrites_metadata(rules: Rules) -> bool:
    """Whether metadata of nodes change."""
    return bool(rules.maps) or {rules.paths, rules.source, rules.ids} != {"keep"}


class RewrittenMetadata:
    """The metadata of an archive's nodes by the rules.

    Args:
        all_metadata: of each node, and the notes about graphs.

    Attributes:
        numbering: of ids, which all nodes have in common.
    """

    def __init__(self, all_metadata: Iterable[Mapping[str, str]], rules: Rules, removed: Removed) -> None:
        self.numbering = IdNumbering()
        self._rules, self._removed = rules, removed
        self._names = rules.renamed(path for metadata in all_metadata for path in _paths(metadata))
        removed.renamed(self._names)

    def of(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """The metadata of a node, or notes about a graph."""
        rewritten: dict[str, str] = {}
        for key, text in metadata.items():
            if key == STACK_TRACE:
                trace = redacted_trace(text, self._rules, self._names, self._removed)
                rewritten |= {} if trace is None else {key: trace}
            elif self._rules.source == "none" and (key == CUSTOM or key not in KIND_BY_KEY.keys() | {HANDLE}):
                for note in strings_in(text):
                    note_gone(note, self._removed)
            else:
                rewritten[key] = changed_strings(text, self._renamed) if SLASHES.search(text) else text
        return self.numbering.numbered(rewritten) if self._rules.ids == "anew" else rewritten

    def _renamed(self, text: str) -> str:
        return str(renamed_in(encoded(text), self._names), "utf-8", "surrogatepass")


def _paths(metadata: Mapping[str, str]) -> Iterator[bytes]:
    for key, text in metadata.items():
        if key == STACK_TRACE:
            yield from files_in(text)
        elif SLASHES.search(text):
            yield from (path for string in strings_in(text) for path in paths_in(encoded(string)))


def _notes(tree: Any) -> dict[str, str]:  # noqa: ANN401 (JSON)
    """The notes about a program's graph."""
    notes = tree["graph_module"].get(NOTES)
    is_known = isinstance(notes, dict) and all(isinstance(note, str) for note in notes.values())
    return notes if is_known else {}


def strings_in(text: str) -> list[str]:
    """The strings of a text that is JSON, keys, too; any other text itself."""
    strings: list[str] = []

    def take(string: str) -> str:
        strings.append(string)
        return string

    changed_strings(text, take)
    return strings


def changed_strings(text: str, change: Callable[[str], str]) -> str:
    """A text with other strings: those of its JSON, if it is JSON, else the text as a whole."""
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
        return [_changed(part, change) for part in value]
    if isinstance(value, dict):
        return {change(key): _changed(part, change) for key, part in value.items()}
    return value
