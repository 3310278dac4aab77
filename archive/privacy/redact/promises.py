"""What a redaction promises: which findings of ``leaks`` in the original must not be in the result.

``leaks`` reads the original first. What it finds of the kinds that the rules take out is looked for in the
result by the proof, in every encoding, and ``leaks`` reads the result, too: what it finds there is left, or
was to be kept.
"""

from __future__ import annotations

import re
from glob import escape
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import counted, one_line
from archive.privacy.leaks import LeakKind, leaks_in
from archive.privacy.leaks.allowed import Allowed
from archive.privacy.leaks.vocabulary import is_word_of_code
from archive.privacy.redact.telling import NAMES, Telling

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.base.mapped import Mapped
    from archive.privacy.leaks import Finding, Leaks
    from archive.privacy.redact.rules import Rules

PATHS = {kind for kind in LeakKind if kind.is_path} - {LeakKind.URL}
SOUGHT = PATHS | NAMES | {LeakKind.EMAIL, LeakKind.URL, LeakKind.KEY}
"""Kinds whose texts must not stand anywhere."""
SEPARATORS = re.compile(r"[/\\]+")


class Found(NamedTuple):
    """What ``leaks`` finds in a result.

    Attributes:
        left: what was to go: texts, and sentences about them.
        kept: what was not.
        remedies: how each kind of what is left gets out.
    """

    left: dict[bytes, str]
    kept: tuple[str, ...]
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


def telling(original: Mapped, rules: Rules, limits: Limits) -> tuple[Telling, list[str]]:
    """The texts that a redaction must take out wherever they stand, by kind; and what was not listed.

    Args:
        original: the file.
        rules: what is to go.
        limits: what it may cost.
    """
    if not rules.people and rules.paths == "keep" and not rules.maps:
        return Telling(), []
    found = leaks_in(original, Allowed([]), limits, deep=True)
    texts: dict[LeakKind, set[bytes]] = {}
    for one in found.findings:
        if one.kind in SOUGHT and goes(one.kind, one.data, rules):
            texts.setdefault(one.kind, set()).add(one.data)
    for kind in NAMES & texts.keys():
        texts[kind] = {name for name in texts[kind] if not is_word_of_code(name)} - _targets(rules)
    more = [f"{counted(n, f'more {kind}')}" for kind, n in found.more.items() if kind in SOUGHT]
    return Telling({kind: some for kind, some in texts.items() if some}), more


def judged(found: Leaks, rules: Rules) -> Found:
    """What ``leaks`` finds in a result, told apart by what rules promise."""
    left: list[Finding] = []
    kept: list[Finding] = []
    for one in found.counted():
        (left if goes(one.kind, one.data, rules) else kept).append(one)
    told = {one.data: _told(one) for one in left}
    more = {
        kind: counted(count, f"more {kind}") for kind, count in found.more.items() if goes(kind, b"", rules)
    }
    told |= {one.encode(): one for one in more.values()}
    remedies = dict.fromkeys(f"{one.kind}: {one.remedy}" for one in left)
    return Found(told, tuple(map(_told, kept)), tuple(remedies))


def allowed(rules: Rules) -> Allowed:
    """Patterns of what maps put in the place of paths, which is meant to be there, with the names in that."""
    paths = [f"{kind}={escape(new.decode())}*" for _, new in rules.maps for kind in LeakKind if kind.is_path]
    parts = [part.decode(errors="replace") for part in sorted(_targets(rules))]
    return Allowed(paths + [f"{kind}={escape(part)}" for part in parts for kind in NAMES])


def _targets(rules: Rules) -> set[bytes]:
    """The parts of what maps put in the place of paths."""
    return {part.encode() for _, new in rules.maps for part in SEPARATORS.split(new.decode()) if part}


def _told(one: Finding) -> str:
    return f"{one.kind} {one_line(one.text)} in {one.places[0]}"
