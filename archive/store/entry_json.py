"""Entries of a store ↔ JSON, as a server lists them.

The JSON of a server is a stranger's: each value is checked for its type and its bounds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from archive.base.errors import ArchiveError, shown
from archive.reader.facts import Facts
from archive.store.entries import label_of

if TYPE_CHECKING:
    from archive.store.entries import Entry

T = TypeVar("T", str, int, list[object])

ID = re.compile(r"[0-9a-f]{32}")
MOST_NUMBER = (1 << 63) - 1


class Listed(NamedTuple):
    """What a server says of a companion.

    Attributes:
        facts: the facts by which a failure names its model.
        root: the folder of all records in the archive; "" where it is not known.
        file: the name of the file that was added.
        added: when, in seconds since 1970.
        size: bytes of the companion.
        kept_size: bytes of its file in the store.
        digest: blake2b of the companion, 16 bytes in hex.
    """

    facts: Facts
    root: str
    file: str
    added: int
    size: int
    kept_size: int
    digest: str

    @property
    def archive_id(self) -> str:
        """The archive id, in hexadecimal digits."""
        return self.facts.archive_id

    @property
    def label(self) -> str:
        """Name and id, as those of :class:`~archive.store.entries.Entry`."""
        return label_of(self.file, self.archive_id)


def entry_json(entry: Entry | Listed, *, complete: bool) -> dict[str, Any]:
    """What a server says of a companion.

    Args:
        entry: of the store.
        complete: tell handles and code records, too.
    """
    facts = entry.facts
    found: dict[str, Any] = {
        "archive_id": facts.archive_id,
        "redacted_id": facts.redacted_id,
        "prefix": facts.prefix,
        "serialization_id": facts.serialization_id,
        "top": facts.top,
        "qualified_top": facts.qualified_top,
        "root": entry.root,
        "file": entry.file,
        "added": entry.added,
        "size": entry.size,
        "kept_size": entry.kept_size,
        "digest": entry.digest,
    }
    if complete:
        found["handles"] = [[run.start, run.stop - 1] for run in facts.handles]
        found["code"] = sorted(facts.code)
    return found


def listed(found: object) -> Listed:
    """What a server says of a companion, all of it.

    Raises:
        ArchiveError: it is not what :func:`entry_json` makes.
    """
    facts = Facts(
        archive_id=_id(found, "archive_id"),
        prefix=_number(found, "prefix"),
        serialization_id=_value(found, "serialization_id", str),
        top=_value(found, "top", str),
        qualified_top=_value(found, "qualified_top", str),
        handles=_runs(_value(found, "handles", list)),
        code=frozenset(_names(_value(found, "code", list))),
        redacted_id=_value(found, "redacted_id", str) and _id(found, "redacted_id"),
    )
    return Listed(
        facts,
        root=_value(found, "root", str),
        file=_value(found, "file", str),
        added=_number(found, "added"),
        size=_number(found, "size"),
        kept_size=_number(found, "kept_size"),
        digest=_id(found, "digest"),
    )


def _value(found: object, key: str, kind: type[T]) -> T:
    value = found.get(key) if isinstance(found, dict) else None
    if type(value) is not kind:
        raise ArchiveError(place=key, expected=kind.__name__, found=shown(value))
    return value


def _number(found: object, key: str) -> int:
    value = _value(found, key, int)
    if not 0 <= value <= MOST_NUMBER:
        raise ArchiveError(place=key, expected="a number of 63 bits", found=shown(value))
    return value


def _id(found: object, key: str) -> str:
    value = _value(found, key, str)
    if not ID.fullmatch(value):
        raise ArchiveError(place=key, expected="32 hexadecimal digits", found=shown(value))
    return value


def _runs(found: list[object]) -> tuple[range, ...]:
    """Ascending runs of handles."""
    runs: list[range] = []
    end = -1
    for run in found:
        match run:
            case [int(first), int(last)] if end < first <= last <= MOST_NUMBER:
                runs.append(range(first, last + 1))
                end = last
            case _:
                raise ArchiveError(place="handles", expected="ascending runs", found=shown(run))
    return tuple(runs)


def _names(found: list[object]) -> list[str]:
    for name in found:
        if not isinstance(name, str):
            raise ArchiveError(place="code", expected="a name", found=shown(name))
    return [str(name) for name in found]
