"""What a redaction promises: which findings of ``leaks`` in the original must not be in the result.

``leaks`` reads the original first. The proof looks in the result, in every encoding, for what it finds of the
kinds that the rules take out, and ``leaks`` reads the result, too: what it finds there is left, or was to be
kept.
"""

from __future__ import annotations

from glob import escape
from typing import TYPE_CHECKING, Literal, NamedTuple

from archive.base.errors import counted
from archive.debuginfo.sites import SEPARATOR
from archive.privacy.leaks import LeakKind, leaks_in
from archive.privacy.leaks.findings import NO_PATHS, NO_TEXT, Allowed, remedy_at
from archive.privacy.leaks.vocabulary import NAMES, PATHS, is_word_of_code
from archive.privacy.redact.named_text import RedactionText
from archive.privacy.redact.removed import Removed, RevealingTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from archive.base.limits import Limits
    from archive.io.mapped import Mapped
    from archive.privacy.leaks import Finder, Finding
    from archive.privacy.leaks.sources import SourceLines
    from archive.privacy.pieces.tensors_read import TensorsRead
    from archive.privacy.redact.rules import Rules
    from archive.reader.recognition import FileKind

What = Literal[
    "path",
    "folder",
    "line",
    "name",
    "root",
    "file",
    "user name",
    "host name",
    "address",
    "URL",
    "key",
    "text",
]
"""What a text that was removed is, in words."""
SOUGHT: dict[LeakKind, What] = dict.fromkeys(PATHS, "path")
SOUGHT[LeakKind.USER], SOUGHT[LeakKind.HOST], SOUGHT[LeakKind.EMAIL] = "user name", "host name", "address"
SOUGHT[LeakKind.URL], SOUGHT[LeakKind.KEY] = "URL", "key"
"""Kinds of findings with texts that must not stand anywhere, and what these are."""


class Judgement(NamedTuple):
    """What ``leaks`` finds in a result.

    Attributes:
        left: what was to go, by its text.
        unlisted: how much more of a kind was to go, in words.
        kept: what was to stay.
        remedies: how to remove each kind of what is left.
    """

    left: dict[bytes, RedactionText]
    unlisted: tuple[str, ...]
    kept: tuple[RedactionText, ...]
    remedies: tuple[str, ...]


def goes(kind: LeakKind, text: bytes, rules: Rules) -> bool:
    """Whether rules promise that a finding is gone."""
    if kind in PATHS | NAMES and rules.paths != "keep":
        return True
    if kind in PATHS and any(text.startswith(old) for old, _ in rules.maps):
        return True
    ways = {
        LeakKind.SOURCE: rules.source == "none",
        LeakKind.COMMENT: rules.source != "keep",
        LeakKind.TIME: rules.times == "none",
        LeakKind.INPUTS: not rules.inputs,
        LeakKind.EXTRA: not rules.extra,
        LeakKind.COMPANION: True,
    }
    return ways.get(kind, rules.people and kind in SOUGHT)


def to_remove(
    original: Mapped,
    rules: Rules,
    limits: Limits,
    known: Callable[[], SourceLines | None] = lambda: None,
    tensors: TensorsRead | None = None,
) -> Removed:
    """What a redaction must take out wherever it stands; rewriters add what they remove.

    Args:
        known: returns the lines of its source text, if they can be read from what is open already.
        tensors: takes what is found in tensors.
    """
    if not rules.people and rules.paths == "keep" and not rules.maps:
        return Removed()
    leaks = leaks_in(original, Allowed([]), limits, deep=True, known=known(), tensors=tensors)
    texts: dict[LeakKind, set[bytes]] = {}
    for finding in leaks.findings:
        if finding.kind in SOUGHT and goes(finding.kind, finding.data, rules):
            texts.setdefault(finding.kind, set()).add(finding.data)
    words: dict[LeakKind, set[bytes]] = {}
    for kind in NAMES & texts.keys():
        names = texts[kind] - targets(rules)
        words[kind] = {name for name in names if is_word_of_code(name)}
        texts[kind] = names - words[kind]
    unlisted = [
        f"{counted(count, f'more {kind}')}, not looked for"
        for kind, count in leaks.more.items()
        if kind in SOUGHT
    ]
    revealing = RevealingTexts({kind: some for kind, some in texts.items() if some})
    return Removed(revealing=revealing, words=words, problems=unlisted)


def judged(finder: Finder, rules: Rules) -> Judgement:
    """What ``leaks`` finds in a result, split by what rules promise."""
    leaks = finder.found(_allowed(rules))
    left: list[Finding] = []
    may_stay: list[Finding] = []
    for finding in leaks.counted():
        (left if goes(finding.kind, finding.data, rules) else may_stay).append(finding)
    unlisted = [
        counted(count, f"more {kind}") for kind, count in leaks.more.items() if goes(kind, b"", rules)
    ]
    remedies = dict.fromkeys(f"{finding.kind}: {_not_taken(finding.remedy, rules)}" for finding in left)
    return Judgement(
        {finding.data: _text_of(finding) for finding in left},
        tuple(unlisted),
        tuple(map(_text_of, may_stay)),
        tuple(remedies),
    )


def _not_taken(remedy: str, rules: Rules) -> str:
    """A way out that rules have not taken: what stays without paths stands in the text of lines."""
    return NO_TEXT if remedy == NO_PATHS and rules.paths != "keep" and rules.source != "none" else remedy


def ways_at(places: Mapping[tuple[What, bytes], str], file: FileKind) -> Iterator[str]:
    """How texts get out that a search has found, by their first places."""
    kinds = {what: kind for kind, what in reversed(SOUGHT.items())}
    for (what, _), place in places.items():
        way = remedy_at(kinds[what], file, place.partition(", ")[0]) if what in kinds else ""
        if way:
            yield f"{what}: {way}"


def _allowed(rules: Rules) -> Allowed:
    """Patterns of what maps put in the place of paths, which is meant to be there, and of the names in it."""
    paths = [f"{kind}={escape(new.decode())}*" for _, new in rules.maps for kind in LeakKind if kind.is_path]
    parts = [part.decode(errors="replace") for part in sorted(targets(rules))]
    return Allowed(paths + [f"{kind}={escape(part)}" for part in parts for kind in NAMES])


def targets(rules: Rules) -> set[bytes]:
    """The parts of what maps put in the place of paths."""
    return {part for _, new in rules.maps for part in SEPARATOR.split(new) if part}


def _text_of(finding: Finding) -> RedactionText:
    return RedactionText(str(finding.kind), finding.text, str(finding.places[0]))
