"""The store of a server, used like a local one."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from functools import cached_property
from typing import TYPE_CHECKING, Any

from archive.base.digests import digest_of
from archive.base.errors import ArchiveError, in_file, shown
from archive.base.json_text import parsed_json
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.reader import opening
from archive.reader.line_digests import unpacked_lines
from archive.store.adding import made_of
from archive.store.client import TOKEN_VARIABLE
from archive.store.client.cache import Cache, folder_of
from archive.store.client.connection import NOT_FOUND, NOT_MODIFIED, UNAUTHORIZED, Connection, ServerRefusal
from archive.store.entries import (
    COMPANIONS,
    LINES,
    MOST_LISTED,
    Addition,
    ServerEntry,
    as_listed,
    parsed_entry,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.io.mapped import Source
    from archive.reader.archive import Archive
    from archive.reader.line_digests import LineDigests
    from archive.store.entries import Outcome

MOST_OF_PAGE, MOST_OF_LIST = 64 << 20, 256 << 20
"""Bytes of a page of the list, and of all pages."""
MOST_VALUES = 1 << 20
"""Values and commas of a page."""
LARGEST = 256 << 20
"""Bytes of a companion."""


class Server:
    """The store of a server. It lists only what can be read, so nothing is ``unread`` or ``damaged``."""

    def __init__(self, url: str, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._connection = Connection(url)
        self._limits = limits
        self._cache = Cache(folder_of(os.environ))
        self.file = self._connection.name
        self.unread: dict[str, str] = {}
        self.damaged: dict[str, ServerEntry] = {}

    def entries(self) -> Sequence[ServerEntry]:
        """All companions, as the server lists them once, in the order of their ids."""
        return list(self._entries.values())

    @cached_property
    def _entries(self) -> Mapping[tuple[str, str], ServerEntry]:
        """The companions by id and digest: the server's bucket may have several of an id."""
        entries: dict[tuple[str, str], ServerEntry] = {}
        after: str | None = ""
        size = 0
        while after is not None:
            data = self._page(after)
            size += len(data)
            if size > MOST_OF_LIST:
                raise ArchiveError(f"a list of more than {MOST_OF_LIST:,} bytes", file=self.file)
            with in_file(self.file, COMPANIONS):
                page, after = _page_of(data, after)
            entries |= {(entry.archive_id, entry.digest): entry for entry in page}
        return entries

    def _page(self, after: str) -> bytes:
        """A page of the list."""
        return self._asked(COMPANIONS, {"facts": "true", "limit": str(MOST_LISTED), "after": after})

    def _asked(self, place: str, query: Mapping[str, str]) -> bytes:
        """An answer: the one in the cache, if it is still the same."""
        key = digest_of(json.dumps([self.file, place, query]).encode()).hex()
        known = self._cache.latest(key)
        headers = {} if known is None else {"If-None-Match": f'"{digest_of(known).hex()}"'}
        reply = self._connection.ask(place, query, most=MOST_OF_PAGE, headers=headers)
        if reply.status == NOT_MODIFIED and known is not None:
            return known
        self._cache.keep(key, reply.data)
        return reply.data

    def companion_of(self, entry: ServerEntry) -> bytes:
        """A companion file that the server lists, to the byte: from the cache, or else from the server."""
        key = digest_of(f"{entry.archive_id}/{entry.digest}".encode()).hex()
        data = self._cache.get(key, entry.digest)
        if data is None:
            most = min(entry.size, LARGEST)
            place, query = f"{COMPANIONS}/{entry.archive_id}", {"digest": entry.digest}
            data = self._connection.ask(place, query, most=most).data
            if digest_of(data).hex() != entry.digest:
                why = (
                    f"gives another companion {entry.archive_id} than it lists; if it was replaced, try again"
                )
                raise ArchiveError(why, file=self.file)
            self._cache.keep(key, data)
        return data

    def opened_of(self, entry: ServerEntry) -> Archive:
        """A companion, opened for reading, and found to be what the list says."""
        data = self.companion_of(entry)
        archive = opening.open(data, limits=self._limits, name=f"{self.file}: {entry.name}")
        archive = as_listed(archive, entry, "what its server lists")
        if entry.facts.code and not archive.line_digests:
            archive.line_digests = self._lines_of(entry)
        return archive

    def _lines_of(self, entry: ServerEntry) -> Mapping[str, LineDigests]:
        """The digests of lines that the server noted beside a companion; none of an older server."""
        place = f"{COMPANIONS}/{entry.archive_id}/{LINES}"
        try:
            data = self._asked(place, {"digest": entry.digest})
        except ServerRefusal as refusal:
            if refusal.status == NOT_FOUND:
                return {}
            raise
        with in_file(self.file, place):
            lines = _object(data).get(LINES)
            if not isinstance(lines, dict) or not all(isinstance(text, str) for text in lines.values()):
                raise ArchiveError(place=LINES, expected="texts of base64 by name", found=shown(lines))
            try:
                return unpacked_lines({name: b64decode(text, validate=True) for name, text in lines.items()})
            except ValueError as error:
                raise ArchiveError(place=LINES, expected="base64", found=str(error)) from None

    def add(
        self, source: Source, *, name: str = "", replace: bool = False, label: str = ""
    ) -> Addition[ServerEntry]:
        """Add a companion, or the companion of an archive, which is made here."""
        made = made_of(source, name, self._limits, label, has_lines=True)
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        headers = {"Content-Type": "application/octet-stream"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        query = {"name": made.file, "root": made.root, "serialization_id": made.serialization_id}
        if label:  # its own is in the companion
            query["label"] = label
        if replace:
            query["replace"] = "true"
        try:
            reply = self._connection.ask(
                COMPANIONS, query, most=MOST_OF_PAGE, headers=headers, body=made.companion
            )
        except ServerRefusal as refusal:
            if refusal.status == UNAUTHORIZED:
                refusal.problem = f"refuses ${TOKEN_VARIABLE}" if token else f"asks for ${TOKEN_VARIABLE}"
            raise
        with in_file(self.file, COMPANIONS):
            facts = _object(reply.data)
            entry = parsed_entry(facts)
        if (
            facts.get("outcome") not in {"same", "labelled"}
            and entry.digest != digest_of(made.companion).hex()
        ):
            raise ArchiveError(f"keeps another companion than {made.file}", file=self.file)
        if label and label not in entry.labels:
            why = f"has added {made.file} without its label, which servers of older versions don't know"
            raise ArchiveError(why, file=self.file)
        self.__dict__.pop("_entries", None)  # it lists one more now
        outcomes: dict[object, Outcome] = {"same": "same", "replaced": "replaced", "labelled": "labelled"}
        return Addition(entry, outcomes.get(facts.get("outcome"), "added"))


def _page_of(data: bytes, after: str) -> tuple[list[ServerEntry], str | None]:
    """The companions of a page, and the id after which the next one begins; None after the last one."""
    page = _object(data)
    items = page.get("companions")
    if not isinstance(items, list):
        raise ArchiveError(place="companions", expected="a list", found=shown(items))
    entries = [parsed_entry(item) for item in items]
    ids = [entry.archive_id for entry in entries]
    is_ordered = ids == sorted(ids) and all(archive_id > after for archive_id in ids[:1])
    if not is_ordered or len({(entry.archive_id, entry.digest) for entry in entries}) < len(entries):
        raise ArchiveError("companions in another order than that of their ids, or twice")
    return entries, ids[-1] if page.get("next") is not None and entries else None


def _object(data: bytes) -> dict[str, Any]:
    """An object of JSON."""
    value = parsed_json(data, MOST_VALUES)
    if not isinstance(value, dict):
        raise ArchiveError(expected="an object of JSON", found=shown(value))
    return value
