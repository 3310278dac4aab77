"""A companion that is about to be added: read and checked, and compared with what is kept already."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError, in_file, shown
from archive.base.limits import unbounded
from archive.companion.parse import parse_companion
from archive.reader import opening
from archive.reader.facts import facts_of
from archive.store.kept import MOST_TIME, Companion, Notes, companion_in, digest_of
from archive.store.plain import companion_of, recipe_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.limits import Limits
    from archive.reader.facts import Facts
    from archive.store.entries import Entry
    from archive.store.kept import Inflated
    from archive.store.making import Made

EPOCH = "SOURCE_DATE_EPOCH"
"""The environment variable that has the time to note, where builds are to be the same each time."""
SECONDS = re.compile("[0-9]{1,12}")


class TakenError(ArchiveError):
    """A companion whose archive id or handle prefix is another one's."""


class New(NamedTuple):
    """A companion that is about to be added."""

    companion: Companion
    notes: Notes
    facts: Facts


def new_of(made: Made, limits: Limits) -> New:
    """A companion that is about to be added, read and checked.

    Raises:
        ArchiveError: it contradicts itself.
    """
    with in_file(made.file):
        allowance = limits.allowance(len(made.companion))
        recipe = recipe_of(memoryview(made.companion), allowance)
        notes = Notes(made.file, _now(), made.root, made.serialization_id, recipe, made.lines)
        companion = Companion.of(made.companion, notes, allowance)
        if companion_of(memoryview(companion.plain), recipe, allowance) != made.companion:
            raise ArchiveError("would not come back to the byte")
    with opening.open(made.companion, limits=limits, name=made.file) as opened:
        return New(companion, notes, facts_of(opened))


def with_lines(new: New, kept: Inflated, limits: Limits) -> New:
    """A companion with what is known of its code's lines, from it or from what is kept of its archive id.

    Archives of one id have the same code. Where the new companion adds its lines alone, it is the kept one
    that gets them.

    Raises:
        ArchiveError: the kept one does not come back.
    """
    notes = new.notes
    if not notes.lines and kept.notes.lines:
        notes = replace(notes, lines=kept.notes.lines)
    elif not kept.notes.lines and notes.lines and holds(kept, new.companion):
        notes = replace(kept.notes, lines=notes.lines)
        companion = Companion(companion_in(kept, limits), notes.told(), bytes(kept.plain))
        return New(companion, notes, new.facts)
    return New(new.companion._replace(notes=notes.told()), notes, new.facts)


def holds_all(kept: Inflated, new: New) -> bool:
    """Whether what is kept holds the facts of a new companion, and what is known of its code."""
    return holds(kept, new.companion) and (bool(kept.notes.lines) or not new.notes.lines)


def holds(kept: Inflated, companion: Companion) -> bool:
    """Whether what is kept is a companion, or holds the same facts in another profile."""
    if kept.header.digest == digest_of(companion.data):
        return True
    one, other = (parse_companion(memoryview(data), unbounded()) for data in (kept.plain, companion.plain))
    return (
        one.columns.keys() == other.columns.keys()
        and all(np.array_equal(values, other.columns[name]) for name, values in one.columns.items())
        and one.strings.copies() == other.strings.copies()
        and bytes(one.raw) == bytes(other.raw)
    )


def check_prefix(facts: Facts, entries: Mapping[str, Entry]) -> None:
    """Refuse a companion whose prefix is another archive's.

    Raises:
        TakenError: the message says of which, and the way out.
    """
    for entry in entries.values():
        if facts.prefix and entry.prefix == facts.prefix and entry.archive_id != facts.archive_id:
            raise TakenError(
                f"is the prefix of another archive already, {entry.label}; "
                "`split --salt TEXT` gives this archive another one",
                file=f"prefix {facts.prefix}",
            )


def _now() -> int:
    """The time to note, in seconds since 1970.

    Raises:
        ArchiveError: the environment names one that is none, or has no day.
    """
    given = os.environ.get(EPOCH, "")
    if not given:
        return int(time.time())
    if not SECONDS.fullmatch(given) or int(given) >= MOST_TIME:
        expected = f"seconds since 1970, fewer than {MOST_TIME:,}"
        raise ArchiveError(file=f"${EPOCH}", expected=expected, found=shown(given))
    return int(given)
