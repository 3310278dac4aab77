"""A redaction as text: what was asked for, what is gone, and what the search for that found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from archive.base.errors import counted, one_line
from archive.pieces.parts import MAPPED
from archive.report.outcome_text import SAME_FILE, SAME_RECORDS, size_line, sizes_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.report.outcome_text import Sized
    from archive.verbs.redact import Redaction
    from archive.verbs.redact.companions import CompanionRedaction

SOUGHT = {"root": "root folder", "file": "part of inputs or extra file"}
"""What removed texts are, in other words than facts have."""

LISTED = 20
"""Texts of a kind that are listed; --json has all."""


def redact_text(facts: Redaction, file: Sized, out: Sized, companion: Sized) -> Group:
    """The summary of a redaction that was done."""
    kept = "debug info as it was" if facts.archive_id == facts.redacted_id else "what it was"
    table = sizes_table(file.size, (file, "the original"), (out, "redacted"), (companion, kept))
    joined = f"`debug-archive join` gives {SAME_FILE if facts.exact else SAME_RECORDS}"
    return Group(table, *map(Text, ("", *_told(facts), joined)))


def redact_line(facts: Redaction, file: Sized, out: Sized, companion: Sized) -> str:
    """The same in one line."""
    return f"{size_line(facts, file, out, companion)}; {_summary(facts)}"


def companion_redaction_text(facts: CompanionRedaction, file: Sized, out: Sized) -> Group:
    """The summary of the redaction of a companion."""
    table = sizes_table(file.size, (file, "debug info"), (out, "redacted, for others"))
    told = [f"taken out: {one_line(one)}" for one in facts.gone]
    told += _unclean(facts)
    told.append(f"{_proof(facts)}, in {facts.read:,} bytes as stored and inflated")
    return Group(table, *map(Text, ("", *told, *_too_short(facts))))


def companion_redaction_line(facts: CompanionRedaction, file: Sized, out: Sized) -> str:
    """The same in one line."""
    return f"{size_line(facts, file, out)}; {_proof(facts)}"


def redact_plan_text(facts: Redaction, file: str) -> Group:
    """A planned redaction of a single file."""
    return Group(*map(Text, (f"{one_line(file)}: {facts.asked}", *_told(facts), "")))


def redact_plan_line(facts: Redaction, file: str) -> str:
    """The same in one line."""
    return f"{one_line(file)}: {facts.asked}; {_summary(facts)}"


def redact_refusal_text(facts: Redaction | CompanionRedaction) -> Group:
    """Why a redacted file is not clean."""
    return Group(*map(Text, _unclean(facts)))


def _told(facts: Redaction) -> Iterator[str]:
    """What is gone, what is not, and what was looked for."""
    yield from (f"taken out: {one_line(one)}" for one in facts.gone)
    yield from facts.refused
    yield from _unclean(facts)
    yield from (f"stays: {one}" for one in facts.stays)
    yield f"{_proof(facts)}, in {facts.read:,} bytes as stored and inflated"
    if mapped := sum(one.endswith(MAPPED) for one in facts.left):
        yield f"{counted(mapped, 'text')} in mapped parts of shared objects cannot be removed"
    if facts.in_code:
        lines = counted(facts.in_code, "line")
        yield f"{lines} of source text in generated code or bytecode, too, which PyTorch runs"
    yield from _too_short(facts)


def _too_short(facts: Redaction | CompanionRedaction) -> Iterator[str]:
    """What was not looked for."""
    if facts.unsought:
        texts = counted(len(facts.unsought), "text")
        yield f"{texts} not looked for: too short, or part of what stays; --json lists all"


def _unclean(facts: Redaction | CompanionRedaction) -> Iterator[str]:
    """What is left, and how that gets out. Nothing but archives is published, and looked at by `leaks`."""
    found = getattr(facts, "leaks", ())
    for what, texts in (("left", facts.left), ("not searched", facts.unread), ("`leaks` finds", found)):
        yield from (f"{what}: {one}" for one in texts[:LISTED])
        if len(texts) > LISTED:
            yield f"{what}: {len(texts) - LISTED:,} more; --json lists all"
    yield from getattr(facts, "remedies", ())


def _summary(facts: Redaction) -> str:
    parts = [_proof(facts)]
    parts += [f"{counted(len(facts.unread), 'record')} not searched"] * bool(facts.unread)
    parts += [f"`leaks` finds {counted(len(facts.leaks), 'text')}"] * bool(facts.leaks)
    return "; ".join(parts)


def _proof(facts: Redaction | CompanionRedaction) -> str:
    """How many of the texts that were looked for are left."""
    parts = []
    for what, count in facts.sought.items():
        left = sum(one.startswith(f"{what} ") for one in facts.left)
        parts += [f"{left:,} of {counted(count, SOUGHT.get(what, what))}"] * bool(count)
    return f"{', '.join(parts) or 'no text was to go, and none is'} left"
