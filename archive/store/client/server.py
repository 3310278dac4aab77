"""A server's store, which looks like one that lies here."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from archive.base.errors import ArchiveError, in_file, shown
from archive.base.json_values import parsed_json
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.reader import opening
from archive.reader.facts import facts_of
from archive.store.client.cache import Cache, digest_of, folder_of
from archive.store.client.connection import NOT_MODIFIED, UNAUTHORIZED, Connection, ServerRefusal
from archive.store.entry_json import Listed, listed
from archive.store.making import made_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.base.mapped import Source
    from archive.reader.archive import Archive

    Outcome = Literal["added", "same", "replaced"]

TOKEN_VARIABLE = "DEBUG_ARCHIVE_TOKEN"  # noqa: S105 (the name of a variable)
COMPANIONS = "/v1/companions"
PAGE = 1_000
"""Companions that are listed at once."""
MOST_OF_PAGE, MOST_OF_LIST = 64 << 20, 256 << 20
"""Bytes of a page of the list, and of all pages."""
MOST_VALUES = 1 << 20
"""Values and commas of a page."""
LARGEST = 256 << 20
"""Bytes of a companion."""


class Server:
    """The store behind a server.

    Args:
        url: its address.
        limits: what a companion may cost.

    Attributes:
        file: the address, for messages.
        unread: none: a server tells of none.
        damaged: likewise.

    Raises:
        ArchiveError: the address is none.
    """

    def __init__(self, url: str, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._connection = Connection(url)
        self._limits = limits
        self._cache = Cache(folder_of(os.environ))
        self.file = self._connection.name
        self.unread: dict[str, str] = {}
        self.damaged: dict[str, Listed] = {}

    def entries(self) -> Sequence[Listed]:
        """All companions, as the server lists them once, in the order of their ids.

        Raises:
            ArchiveError: the server cannot be reached, or says what cannot be.
        """
        return list(self._listed.values())

    @cached_property
    def _listed(self) -> Mapping[str, Listed]:
        found: dict[str, Listed] = {}
        after: str | None = ""
        size = 0
        while after is not None:
            data = self._page(after)
            size += len(data)
            if size > MOST_OF_LIST:
                raise ArchiveError(f"a list of more than {MOST_OF_LIST:,} bytes", file=self.file)
            with in_file(self.file, COMPANIONS):
                page, after = _page_of(data, after)
            found |= {one.archive_id: one for one in page}
        return found

    def _page(self, after: str) -> bytes:
        """A page of the list: the one in the cache, if it is still the same."""
        query = {"facts": "true", "limit": str(PAGE), "after": after}
        key = digest_of(json.dumps([self.file, query]).encode())
        known = self._cache.latest(key)
        headers = {} if known is None else {"If-None-Match": f'"{digest_of(known)}"'}
        reply = self._connection.ask(COMPANIONS, query, most=MOST_OF_PAGE, headers=headers)
        if reply.status == NOT_MODIFIED and known is not None:
            return known
        self._cache.keep(key, reply.data)
        return reply.data

    def companion(self, archive_id: str) -> bytes:
        """A companion file, to the byte: from the cache, or else from the server.

        Raises:
            ArchiveError: there is none, or the server gives other bytes than its list says.
        """
        entry = self._listed.get(archive_id)
        if entry is None:
            raise ArchiveError(f"no companion has the id {archive_id}", file=self.file)
        data = self._cache.get(archive_id, entry.digest)
        if data is None:
            most = min(entry.size, LARGEST)
            data = self._connection.ask(f"{COMPANIONS}/{archive_id}", most=most).data
            if digest_of(data) != entry.digest:
                why = f"gives another companion {archive_id} than it lists; if it was replaced, try again"
                raise ArchiveError(why, file=self.file)
            self._cache.keep(archive_id, data)
        return data

    def opened(self, archive_id: str) -> Archive:
        """A companion, opened for reading, and found to be what the list says.

        Raises:
            ArchiveError: there is none, or it is none, or it contradicts the list.
        """
        data = self.companion(archive_id)
        entry = self._listed[archive_id]
        opened = opening.open(data, limits=self._limits, name=f"{self.file}: {entry.label}")
        # The serialization id stands in the archive alone.
        found = replace(facts_of(opened), serialization_id=entry.facts.serialization_id)
        for field in fields(found):
            if getattr(found, field.name) != getattr(entry.facts, field.name):
                opened.close()
                raise ArchiveError(f"contradicts what its server lists: {field.name}", file=opened.file)
        return opened

    def add(self, source: Source, *, name: str = "", replace: bool = False) -> Added:
        """Add a companion, or the companion of an archive, which is made here.

        Args:
            source: the file.
            name: how it is called; by default by its path.
            replace: let it take the place of another companion of its archive id.

        Raises:
            NoDebugInfoError: it is an archive without debug info.
            ArchiveError: it is of another kind; or the server is read only, or asks for the token of
                ``$DEBUG_ARCHIVE_TOKEN``, or has that id or prefix for another archive.
            OSError: a file cannot be read.
        """
        made = made_of(source, name, self._limits)
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        headers = {"Content-Type": "application/octet-stream"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        query = {"name": made.file, "root": made.root, "serialization_id": made.serialization_id}
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
            entry = listed(facts)
        if facts.get("outcome") != "same" and entry.digest != digest_of(made.companion):
            raise ArchiveError(f"keeps another companion than {made.file}", file=self.file)
        self.__dict__.pop("_listed", None)  # it lists one more now
        outcomes: dict[object, Outcome] = {"same": "same", "replaced": "replaced"}
        return Added(entry, outcomes.get(facts.get("outcome"), "added"))


class Added(NamedTuple):
    """The result of adding a file.

    Attributes:
        entry: what the server knows of the companion.
        outcome: whether it is new, was there already, or took the place of another one.
    """

    entry: Listed
    outcome: Outcome


def _page_of(data: bytes, after: str) -> tuple[list[Listed], str | None]:
    """The companions of a page, and the id behind which the next one begins; None behind the last one.

    Raises:
        ArchiveError: it is no page.
    """
    page = _object(data)
    items = page.get("companions")
    if not isinstance(items, list):
        raise ArchiveError(place="companions", expected="a list", found=shown(items))
    found = [listed(one) for one in items]
    ids = [after, *(one.archive_id for one in found)]
    if any(one >= other for one, other in pairwise(ids)):
        raise ArchiveError("companions in another order than that of their ids")
    return found, ids[-1] if page.get("next") is not None and found else None


def _object(data: bytes) -> dict[str, Any]:
    """An object of JSON.

    Raises:
        ArchiveError: it is none.
    """
    found = parsed_json(data, MOST_VALUES)
    if not isinstance(found, dict):
        raise ArchiveError(expected="an object of JSON", found=shown(found))
    return found
