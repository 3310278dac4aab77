"""A redaction as text: what was asked for, what is gone, and what the search for that found."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from archive.base.errors import counted, one_line, shown
from archive.privacy.pieces.encoded import searched
from archive.privacy.pieces.piece import MAPPED
from archive.privacy.review.reviewed import UNACCEPTED, texts_counted
from archive.render.making import SAME_FILE, SAME_RECORDS, size_line, sizes_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.privacy.redact import Redaction
    from archive.privacy.redact.metadata import MetadataRedaction
    from archive.privacy.redact.result import AnyRedaction, CheckpointRedaction, CompanionRedaction
    from archive.render.fitted_table import Printed
    from archive.render.making import Sized

SOUGHT = {"root": "root folder", "address": "e-mail address", "file": "part of inputs or extra file"}
"""Words for kinds of removed texts that differ from those in facts."""

LISTED = 20
"""Texts of a kind that are listed; --json has all."""


def redact_text(facts: Redaction, file: Sized, out: Sized, companion: Sized) -> Printed:
    """The summary of a redaction that was done."""
    kept = "debug info as it was" if facts.archive_id == facts.redacted_id else "what it was"
    table = sizes_table(file.size, (file, "the original"), (out, "redacted"), (companion, kept))
    joined = f"`debug-archive join` gives {SAME_FILE if facts.exact else SAME_RECORDS}"
    return [table, "", *_described(facts), joined]


def redact_line(facts: Redaction, file: Sized, out: Sized, companion: Sized) -> str:
    """The same in one line."""
    return f"{size_line(facts, file, out, companion)}; {_summary(facts)}"


def companion_redaction_text(facts: CompanionRedaction, file: Sized, out: Sized) -> Printed:
    """The summary of the redaction of a companion."""
    table = sizes_table(file.size, (file, "debug info"), (out, "redacted, for others"))
    lines = [f"taken out: {what}" for what in facts.gone]
    return [table, "", *lines, *_rest(facts)]


def metadata_redaction_text(facts: MetadataRedaction, file: Sized, out: Sized) -> Printed:
    """The summary of the redaction of the metadata of safetensors."""
    table = sizes_table(file.size, (file, "the original"), (out, "redacted; tensors are the same"))
    lines = [f"taken out of metadata: {one_line(key)}" for key in facts.gone]
    lines += [f"changed in metadata: {one_line(key)}" for key in facts.changed]
    return [table, "", *lines, *_absent(facts), *_rest(facts)]


def checkpoint_redaction_text(facts: CheckpointRedaction, file: Sized, out: Sized) -> Printed:
    """The summary of a replacement of texts in a checkpoint."""
    table = sizes_table(file.size, (file, "the original"), (out, "redacted; all else is the same"))
    lines = [f"replaced: {place}" for place in facts.changed[:LISTED]]
    if len(facts.changed) > LISTED:
        lines.append(f"replaced: {len(facts.changed) - LISTED:,} more; --json lists all")
    return [table, "", *lines, *_absent(facts), *_rest(facts)]


def alone_redaction_line(facts: AnyRedaction, file: Sized, out: Sized) -> str:
    """A redaction without a companion, in one line."""
    return f"{size_line(facts, file, out)}; {_proof(facts)}"


def redact_plan_text(facts: Redaction, file: str) -> Printed:
    """A planned redaction of a single file."""
    return [f"{file}: {facts.asked}", *_described(facts), ""]


def redact_plan_line(facts: Redaction, file: str) -> str:
    """The same in one line."""
    return f"{one_line(file)}: {facts.asked}; {_summary(facts)}"


def _described(facts: Redaction) -> Iterator[str]:
    """What is gone, what isn't, and what was looked for."""
    yield from (f"taken out: {what}" for what in facts.gone)
    yield from facts.refused
    yield from redact_refusal_text(facts)
    yield from (f"stays: {what}" for what in facts.stays)
    yield from _searched(facts)
    if mapped := sum(one.place.endswith(MAPPED) for one in facts.remaining):
        yield f"{counted(mapped, 'text')} in mapped parts of shared objects cannot be removed"
    if facts.in_code:
        lines = counted(facts.in_code, "line")
        yield f"stays: {lines} of source text that PyTorch also runs, as generated code or bytecode"
    yield from _kept(facts)
    yield from _too_short(facts)
    yield from _unseen(facts)


def _absent(facts: MetadataRedaction | CheckpointRedaction) -> Iterator[str]:
    """What was to be replaced, and isn't there."""
    yield from (f"nothing to replace: no text has {shown(value)}" for value in facts.absent)


def _rest(facts: AnyRedaction) -> Iterator[str]:
    """What isn't gone, and what was looked for."""
    yield from redact_refusal_text(facts)
    yield from _searched(facts)
    yield from _kept(facts)
    yield from _too_short(facts)
    yield from _unseen(facts)


def _unseen(facts: AnyRedaction) -> Iterator[str]:
    """How many texts of the result nobody has looked at, where no review has said so."""
    if facts.unaccepted and not any(what.endswith(UNACCEPTED) for what in facts.problems):
        yield f"nobody has looked at {texts_counted(facts.unaccepted)} in it: --review FILE lists them"


def _too_short(facts: AnyRedaction) -> Iterator[str]:
    """What was not looked for."""
    if facts.not_searched_for:
        texts = counted(len(facts.not_searched_for), "text")
        yield f"{texts} not looked for: too short, a common word, or part of what stays; --json lists all"


def redact_refusal_text(facts: AnyRedaction) -> Iterator[str]:
    """What is left, and how that gets out."""
    left = [*facts.remaining, *facts.problems]
    yield from (f"left: {what}" for what in left[:LISTED])
    if len(left) > LISTED:
        yield f"left: {len(left) - LISTED:,} more; --json lists all"
    if facts.carriers:
        yield f"names that carry that of a person or a machine: {', '.join(facts.carriers)}"
    yield from facts.remedies


def _kept(facts: AnyRedaction) -> Iterator[str]:
    """What `leaks` finds in the result, and is meant to stay."""
    kinds = Counter(finding.what for finding in facts.kept_by_choice)
    if kinds:
        counts = ", ".join(f"{kind} {count:,}" for kind, count in kinds.items())
        yield f"kept by these choices: {counts}; --json lists all"


def _summary(facts: Redaction) -> str:
    others = len(facts.remaining) + len(facts.problems) - sum(facts.found.values())
    return "; ".join([_proof(facts), *[f"{counted(others, 'finding')} besides"] * bool(others)])


def _proof(facts: AnyRedaction) -> str:
    """How many of the texts that were looked for are gone, and how many are left."""
    gone, left = [], []
    for what, count in facts.sought.items():
        remaining, noun = facts.found.get(what, 0), SOUGHT.get(what, what)
        if count > remaining:
            gone.append(counted(count - remaining, noun))
        if count and remaining:
            left.append(f"{remaining:,} of {counted(count, noun)}")
    if not gone and not left:
        return "No text was to be removed, and none is left"
    none = "none" if facts.is_clean else "none of these"
    return f"Removed {', '.join(gone) or 'nothing'}; {', '.join(left) or none} left"


def _searched(facts: AnyRedaction) -> Iterator[str]:
    """The proof, and what it went through."""
    yield f"{_proof(facts)}, in {facts.read:,} bytes as stored and inflated"
    yield f"searched {searched()}"
