"""An example of a log: a failure in an operation of a model that the store has, and that it explains."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from archive.app.explaining import explainer_of
from archive.base.errors import one_line
from archive.debuginfo.unique_handles import SPAN
from archive.failures.models.models import KeptModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.failures.models.models import Model, Models

MOST_TRIED = 64
"""Logs that are tried before there is no example."""
HANDLES_TRIED = 8
"""Handles of a model among them."""
HERE = b"<--- HERE"
"""Stands in an explanation that shows the line."""
LONGEST = 200
"""Characters of a model's name."""


def example_of(models: Models) -> str:
    """A log of one failure, which these models explain with a line of source; "" where none is found."""
    for log in islice(_logs(models), MOST_TRIED):
        explainer = explainer_of(models, ids=None, names=None)
        explained = b"".join(explainer.explain([log.encode("utf-8", "backslashreplace")]))
        if explainer.explained == 1 and HERE in explained:
            return log
    return ""


def _logs(models: Models) -> Iterator[str]:
    """Logs to try: models with unique handles first, since nobody else's failure looks like theirs."""
    kept = [model for model in models.all if isinstance(model, KeptModel)]
    for model in sorted(kept, key=lambda one: not one.facts.prefix):
        name = one_line(model.entry.file)[:LONGEST]
        for handle in _handles(model):
            yield (
                f"ERROR an example, which did not happen: an operation of {name} fails\n  \n"
                f"  Debug info for handle(s): debug_handles:{{{handle}}}, was not found.\n  \n"
            )


def _handles(model: Model) -> Iterator[int]:
    """Some handles of a model as its failures show them, spread over all."""
    facts = model.facts
    count = sum(map(len, facts.handles))
    every = chain.from_iterable(facts.handles)
    step = max(1, count // HANDLES_TRIED)
    for handle in islice(every, step // 2, None, step):
        yield facts.prefix * SPAN + handle if 0 <= handle < SPAN else handle
