"""The range that TorchScript shows for an operation of a lowered module.

TorchScript's archives have one range for a place in the code, and none for the calls on the way. So the
innermost range on the way that is not in PyTorch's own source is shown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.backend.source_files import is_pytorchs
from archive.base.strings import decoded
from archive.debuginfo.sites import Site, Span

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NULL_SPAN = Span(b"", b"", 0, 0, 0)
"""The range for handles without one. PyTorch writes ``NO_TAG`` for these, and then refuses to load it."""


def has_source(site: Site) -> bool:
    """Whether an operation, or a call on the way to it, has a range."""
    return any(span is not NULL_SPAN for span in _spans(site))


def placed(site: Site) -> Site:
    """The site of an operation; without a range, that of the innermost call that has one."""
    while site.span is None and has_source(site):
        *steps, last = site.steps
        site = Site(site.op, last.span, tuple(steps))
    return site


def shown_range(site: Site) -> Span:
    """The range that TorchScript shows; PyTorch's own if all are."""
    return _spans(site)[_shown(site)]


def with_owners(sites: Mapping[int, Site], shown: Collection[int]) -> dict[int, Site]:
    """The sites, in which operations that are statements do not share the tag of the range that is shown.

    So whoever loads the archive again knows whose row is whose; see :mod:`archive.backend.lower.reloading`.

    Args:
        sites: the sites by debug handle.
        shown: the handles of statements.
    """
    users = Counter(shown_range(site) for site in sites.values())
    return {
        handle: _with_owner(site, handle) if handle in shown and users[shown_range(site)] > 1 else site
        for handle, site in sites.items()
    }


def _with_owner(site: Site, handle: int) -> Site:
    """A site whose shown range is its handle's alone."""
    place = _shown(site)
    if place == len(site.steps):
        return replace(site, span=site.span and replace(site.span, owner=handle))
    steps = list(site.steps)
    span = steps[place].span
    steps[place] = replace(steps[place], span=span and replace(span, owner=handle))
    return replace(site, steps=tuple(steps))


def _spans(site: Site) -> list[Span]:
    """The ranges of the calls on the way to an operation, and its own."""
    return [span or NULL_SPAN for span in (*(step.span for step in site.steps), site.span)]


def _shown(site: Site) -> int:
    """The place in ``_spans`` of the innermost range not in PyTorch's source; the last one's if all are."""
    spans = _spans(site)
    models = (
        place
        for place in reversed(range(len(spans)))
        if spans[place] is not NULL_SPAN and not is_pytorchs(decoded(spans[place].filename))
    )
    return next(models, len(spans) - 1)
