"""A store in a bucket (``s3://…``, ``gs://…``): companions as objects that never change.

::

    debug-archive-store             marks the place: what lies there, and the format's version
    companions/ARCHIVE_ID/DIGEST    a kept companion without a base: :mod:`~archive.store.kept`
    prefixes/PREFIX                 the archive id whose unique handles have this prefix: its claim
    index                           the facts of the companions, as a server lists them: a cache

Buckets have no locks, and nothing in them can be renamed. So an object is created only if it is absent;
of several processes that create one, a single one wins. ``DIGEST`` is that of all that the companion says,
in whatever layout, so whoever creates an object of that name wrote the same facts. Companions of one archive
id, of builds whose code is equal and whose source is not, are all kept: a failure may be of any.

The list of the bucket says what is there; the index spares reading each. It is replaced only as it was read
(``If-Match``, where the bucket knows that), and lacks nothing that a reader would not find: what is not in it
is read. Nothing in the bucket is trusted: an object is read within its size, its digest is compared with its
name, and its facts with those of the index.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.closing import Closing
from archive.base.diagnostics import Diagnostic
from archive.base.errors import ArchiveError, in_file, one_line, shown
from archive.base.json_text import parsed_json
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.companion.parse import parse_companion
from archive.formats.archive_id import ID_TEXT
from archive.formats.release_label import MOST_LABELS
from archive.reader.facts import facts_of
from archive.store.adding import (
    MadeCompanion,
    TakenError,
    check_labels,
    content_of,
    made_of,
    new_of,
    taken_prefix,
)
from archive.store.catalogue import opened_plain
from archive.store.entries import Addition, ServerEntry, as_listed, entry_json, parsed_entry, read_values
from archive.store.finding import StoreContents, meant_by, one_of
from archive.store.folder import MARK, MARK_TEXT
from archive.store.kept import Given, build_kept, inflate, read_header
from archive.store.objects import Objects
from archive.store.upkeep import INEXACT, Cleaned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.io.mapped import Source
    from archive.reader.archive import Archive
    from archive.store.kept import Inflated

MARKED = b"debug-archive store in a bucket, version 1\n"
COMPANIONS, PREFIXES, INDEX = "companions", "prefixes", "index"
KEY = re.compile(rf"{COMPANIONS}/(?P<id>{ID_TEXT.pattern})/[0-9a-f]{{32}}")
CLAIM = re.compile(rf"{PREFIXES}/(?P<prefix>[1-9][0-9]{{9}})")
LARGEST, LARGEST_INDEX, LARGEST_MARK = 256 << 20, 256 << 20, 1 << 10
"""Bytes of a companion's object, of the index, and of a mark or a claim."""
MOST_VALUES = 1 << 24
"""Values of JSON in the index."""
AT_ONCE = 8
"""Objects that are read at the same time."""
FRESH = 10.0
"""Seconds in which a list of the bucket is taken to be true: every request of a server asks for it."""
STALE = 24 * 3600
"""Seconds after which a claim without a companion has no owner: whoever adds one creates the claim first."""
TIMES = "LastModified", "updated", "created", "mtime"
"""Keys under which file systems say when an object was written."""


@dataclass(frozen=True, slots=True)
class BucketEntry(ServerEntry):
    """A companion in a bucket; ``content`` is the digest in its object's name."""

    content: str

    @property
    def key(self) -> str:
        """The name of its object."""
        return f"{COMPANIONS}/{self.archive_id}/{self.content}"


class Bucket(Closing):
    """A store in a bucket. Threads and processes may use one at once.

    Attributes:
        damaged: none: what is listed and cannot be read is in ``unread``.
    """

    def __init__(self, url: str, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._objects = Objects(url)
        self.file = self._objects.name
        self.limits = limits
        self.damaged: dict[str, BucketEntry] = {}
        self._unread: dict[str, str] = {}
        self._foreign: list[str] = []
        self._entries: Sequence[BucketEntry] = ()
        self._copies: Mapping[str, Sequence[str]] = {}
        self._listed = -FRESH

    @classmethod
    def open(cls, url: str, *, create: bool = False, limits: Limits = DEFAULT_LIMITS) -> Bucket:
        """Open a store in a bucket; ``create`` makes one where nothing says that there is one."""
        bucket = cls(url, limits=limits)
        mark = bucket._objects.found(MARK, LARGEST_MARK)
        if not mark and create:
            bucket._objects.create(MARK, MARKED)
            mark = bucket._objects.found(MARK, LARGEST_MARK)
        if not mark:
            raise ArchiveError(f"isn't a store: there is no object {MARK} in it", file=bucket.file)
        if mark == MARK_TEXT:
            why = "is a copy of a store's folder: `store add` makes a bucket's store of its companions"
            raise ArchiveError(why, file=bucket.file)
        if mark != MARKED:
            found = f"{shown(mark.decode('utf-8', 'replace'))}; a newer debug-archive may read it"
            raise ArchiveError(expected="a bucket's store of version 1", found=found, file=bucket.file)
        return bucket

    def __repr__(self) -> str:
        return f"<Bucket {self.file!r}>"

    def close(self) -> None:
        """Nothing is open between requests."""

    # What is in it

    def entries(self) -> Sequence[BucketEntry]:
        """All companions that the bucket listed in the last ten seconds, in the order of their ids."""
        if time.monotonic() - self._listed >= FRESH:
            self._list()
        return self._entries

    @property
    def unread(self) -> Mapping[str, str]:
        """The objects that cannot be read, by name, each with the reason."""
        self.entries()
        return self._unread

    def _list(self) -> None:
        sizes = self._objects.listed(COMPANIONS)
        keys = dict.fromkeys(key for key in sorted(sizes) if KEY.fullmatch(key))
        known, version = self._index()
        known = {key: entry for key, entry in known.items() if key in keys and entry.kept_size == sizes[key]}
        unread: dict[str, str] = {}

        def read(key: str) -> BucketEntry | None:
            try:
                return self._entry(key, self._read(key))
            except FileNotFoundError:  # it was removed meanwhile
                return None
            except (ArchiveError, OSError) as error:
                unread[key] = one_line(str(error))
                return None

        new = [key for key in keys if key not in known]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = dict(zip(new, pool.map(read, new), strict=True))
        entries = known | {key: entry for key, entry in found.items() if entry is not None}
        if len(entries) > len(known):
            self._write_index(entries, version)
        copies: defaultdict[tuple[str, str], list[BucketEntry]] = defaultdict(list)
        for entry in sorted(entries.values(), key=lambda entry: (entry.kept_size, entry.key)):
            copies[entry.archive_id, entry.digest].append(entry)
        # Of several copies, the one with line digests, and the labels of all.
        every = [replace(same[-1], labels=_labels_of(same)) for same in copies.values()]
        self._entries = sorted(every, key=lambda entry: entry.key)
        self._copies = {same[-1].key: [one.key for one in same] for same in copies.values()}
        self._unread, self._foreign = unread, [key for key in sizes if key not in keys]
        self._listed = time.monotonic()

    def _index(self) -> tuple[dict[str, BucketEntry], str]:
        """What the index says by the names of objects, and its version; nothing where it is broken."""
        with suppress(ArchiveError, OSError):
            data, version = self._objects.versioned(INDEX, LARGEST_INDEX)
            values = parsed_json(data, MOST_VALUES) if data else {}
            if isinstance(values, dict):
                return dict(_known(values)), version
            return {}, version
        return {}, ""

    def _write_index(self, entries: Mapping[str, BucketEntry], version: str) -> None:
        """Replace the index that was read; one that another process replaced meanwhile stays."""
        values = {key: entry_json(entry, complete=True) for key, entry in entries.items()}
        with suppress(ArchiveError, OSError):  # whoever may only read has no need of it
            self._objects.replace(INDEX, json.dumps(values, separators=(",", ":")).encode(), version)

    def _read(self, key: str) -> Inflated:
        """What a companion's object holds."""
        kept = self._objects.kept(key)
        data = kept or self._objects.read(key, LARGEST)
        with in_file(f"{self.file}/{key}"):
            header = read_header(memoryview(data))
            if header.depth:
                raise ArchiveError(place="header", expected="no base", found=f"depth {header.depth}")
            with memory.charged(self.limits.allowance(len(data))):
                inflated = inflate(memoryview(data), header, b"")
            if content_of(inflated) != PurePosixPath(key).name:
                raise ArchiveError(expected="the companion that its name says", found="another")
        if kept is None:
            self._objects.keep(key, data)
        return inflated

    def _entry(self, key: str, inflated: Inflated) -> BucketEntry:
        """The facts about a companion."""
        name, archive_id = f"{self.file}/{key}", PurePosixPath(key).parent.name
        with opened_plain(inflated, name, self.limits) as archive, memory.charged(archive.allowance):
            facts = facts_of(archive)
        if facts.archive_id != archive_id:
            raise ArchiveError(expected=f"archive id {archive_id}", found=facts.archive_id, file=name)
        values = read_values(facts, inflated.notes, inflated.header)
        return BucketEntry(*values, inflated.weight, PurePosixPath(key).name)

    def find(self, word: str) -> Sequence[BucketEntry]:
        """The companions that a word may mean: see :func:`~archive.store.finding.meant_by`."""
        return meant_by(self.entries(), word)

    def one(self, word: str) -> BucketEntry:
        """The only companion that a word means: see :func:`~archive.store.finding.meant_by`."""
        return one_of(self.entries(), word, self.file)

    def listing(self) -> StoreContents[BucketEntry]:
        """All companions, and all foreign names below ``companions``."""
        entries = self.entries()
        return StoreContents(entries, self._unread, [PurePosixPath(name) for name in self._foreign], 0)

    def given_of(self, entry: BucketEntry) -> Given:
        """A companion file, as it was added, to the byte; or the same facts, if compressing changed."""
        return Given.of(self._read(entry.key), self.limits)

    def lines_of(self, entry: BucketEntry) -> Mapping[str, bytes]:
        """Digests of lines, by code record: see :class:`~archive.store.stores.OwnStore`."""
        return self._read(entry.key).notes.lines

    def opened_of(self, entry: BucketEntry) -> Archive:
        """A companion, opened for reading, and found to be what the index says."""
        archive = opened_plain(self._read(entry.key), f"{self.file}/{entry.key}", self.limits)
        return as_listed(archive, entry, "the index of its bucket")

    # Changes

    def add(
        self, source: Source | MadeCompanion, *, name: str = "", replace: bool = False, label: str = ""
    ) -> Addition[BucketEntry]:
        """Add a companion, or the companion of an archive. Others of its archive id stay unless replaced.

        An object never changes: what is there already is there once more with another label.

        Raises:
            TakenError: its prefix is another archive's; nothing is added.
        """
        made = source if isinstance(source, MadeCompanion) else made_of(source, name, self.limits)
        new = new_of(made.labelled(label), self.limits)
        data = build_kept(new.parts, None)
        header = read_header(memoryview(data))
        with memory.charged(self.limits.allowance(len(data))):
            inflated = inflate(memoryview(data), header, b"")
        archive_id, content = new.facts.archive_id, content_of(inflated)
        key = f"{COMPANIONS}/{archive_id}/{content}"
        self._claim(new.facts.prefix, archive_id)
        is_new = self._objects.create(key, data)
        if is_new:  # the cache may have what was removed: the same content in other bytes
            self._objects.keep(key, data)
        try:  # once more: `gc` may have removed the claim before the companion was there
            self._claim(new.facts.prefix, archive_id)
        except TakenError:
            if is_new:
                self._objects.remove(key)
            raise
        entry = self._entry(key, self._read(key))
        others = [other for other in self._objects.listed(f"{COMPANIONS}/{archive_id}") if other != key]
        for other in others if replace else ():
            self._objects.remove(other)
        self._listed = -FRESH
        if is_new and others and not replace and entry.labels:  # it may have been there with other labels
            listed = {(one.archive_id, one.digest): one for one in self.entries()}
            same = listed.get((archive_id, entry.digest))
            if same is not None and len(self._copies[same.key]) > 1:
                if not set(entry.labels) <= set(same.labels):  # the list has no room for them
                    self._objects.remove(key)
                    check_labels([*same.labels, *entry.labels], entry.file)
                return Addition(same, "labelled")
        return Addition(entry, "replaced" if replace and others else "added" if is_new else "same")

    def _claim(self, prefix: int, archive_id: str) -> None:
        """Claim a prefix of unique handles for an archive."""
        key = f"{PREFIXES}/{prefix}"
        if not prefix or self._objects.create(key, archive_id.encode()):
            return
        owner = self._objects.found(key, LARGEST_MARK).decode("utf-8", "replace")
        if owner != archive_id:
            raise taken_prefix(prefix, one_line(owner))

    def remove(self, key: str) -> None:
        """Remove a companion by the name of its object. The claim of its prefix stays until :meth:`gc`."""
        if not KEY.fullmatch(key):
            raise ArchiveError(f"no companion is called {shown(key)}", file=self.file)
        for copy in self._copies.get(key, [key]):
            self._objects.remove(copy)
        self._listed = -FRESH

    def gc(self) -> Cleaned:
        """Remove the claims of archives of which nothing is kept, once they are a day old."""
        claims = freed = 0
        for key, size in self._objects.listed(PREFIXES).items():
            owner = self._objects.found(key, LARGEST_MARK).decode("utf-8", "replace")
            if not CLAIM.fullmatch(key) or not ID_TEXT.fullmatch(owner) or not self._is_stale(key):
                continue
            if self._objects.listed(f"{COMPANIONS}/{owner}"):
                continue
            self._objects.remove(key)
            if self._objects.listed(f"{COMPANIONS}/{owner}"):  # it came between the look and the removal
                self._objects.create(key, owner.encode())
                continue
            claims, freed = claims + 1, freed + size
        return Cleaned(0, 0, 0, freed, claims)

    def _is_stale(self, key: str) -> bool:
        """Whether an object is a day old; never where the bucket does not say."""
        facts = self._objects.facts(key)
        written = next((facts[name] for name in TIMES if facts.get(name) is not None), None)
        if isinstance(written, str):
            with suppress(ValueError):
                written = datetime.fromisoformat(written)
        seconds = written.timestamp() if isinstance(written, datetime) else written
        return isinstance(seconds, int | float) and time.time() - seconds > STALE

    def check(self) -> Iterator[Diagnostic]:
        """Look for what is wrong: each companion is read whole, and compared with its claim and the index."""
        self._listed = -FRESH
        entries = self.entries()
        for key, why in self._unread.items():
            yield Diagnostic("error", key, "", why)
        for entry in entries:
            try:
                data, is_exact = self.given_of(entry)
                with memory.charged(self.limits.allowance(len(data))):
                    _ = parse_companion(memoryview(data)).records  # reads all of it
                self.opened_of(entry).close()
            except (ArchiveError, OSError) as error:
                yield Diagnostic("error", entry.key, "", one_line(str(error)))
                continue
            if not is_exact:
                yield Diagnostic("warning", entry.key, "", INEXACT)
            if entry.prefix:
                owner = self._objects.found(f"{PREFIXES}/{entry.prefix}", LARGEST_MARK)
                if owner != entry.archive_id.encode():
                    why = "another archive's" if owner else "not claimed; add the companion again"
                    yield Diagnostic("warning", entry.key, "", f"its prefix {entry.prefix} is {why}")
        for name in self._foreign:
            yield Diagnostic("warning", one_line(name), "", "isn't an object of a store; ignored")


def _labels_of(copies: Sequence[BucketEntry]) -> tuple[str, ...]:
    """The labels of several copies of a companion."""
    return tuple(dict.fromkeys(label for one in copies for label in one.labels))[:MOST_LABELS]


def _known(values: Mapping[str, object]) -> Iterator[tuple[str, BucketEntry]]:
    """The entries of the index, without invalid ones and those of another archive id than their object."""
    for key, value in values.items():
        with suppress(ArchiveError):
            entry, match = parsed_entry(value), KEY.fullmatch(key)
            if match is not None and entry.archive_id == match["id"]:
                listed = {field.name: getattr(entry, field.name) for field in fields(entry)}
                yield key, BucketEntry(**listed, content=PurePosixPath(key).name)
