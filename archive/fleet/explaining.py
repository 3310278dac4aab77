"""A log of many models' failures → the log with each failure explained by its own model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.fleet.answers import FleetAnswers
from archive.fleet.naming import Naming
from archive.verbs.logs import Explainer

if TYPE_CHECKING:
    from archive.fleet.models import Models


def explainer_of(
    models: Models,
    *,
    ids: str | None = None,
    names: str | None = None,
    style: Style = Style.CURRENT,
    limits: Limits = DEFAULT_LIMITS,
) -> Explainer:
    """An explainer of the failures of many models.

    Args:
        models: the models.
        ids: a pattern of the lines that name a model's archive id, handle prefix or serialization id: its
            first group, or the whole match.
        names: the same for the name of a file, or of the top module's class.
        style: the release whose wording explains the lite interpreter's failures.
        limits: ``work`` and ``output`` bound the explanations.

    Raises:
        ArchiveError: a pattern is no regular expression.
    """
    spending = Spending(limits)
    return Explainer(FleetAnswers(models, style, spending, Naming(models, ids=ids, names=names)), spending)
