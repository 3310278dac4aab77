"""The causes of a log's failures → a table, or facts for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from archive.base.errors import counted, one_line
from archive.report.fitted_table import FittedTable

if TYPE_CHECKING:
    from archive.failures.causes import Group as Failures
    from archive.failures.explainer import Explainer


def causes_text(explainer: Explainer, top: int | None) -> Group:
    """The causes with most failures, as a table."""
    groups = explainer.causes.top(top)
    table = FittedTable([("failures", "number"), ("lines", "number"), ("place", "name"), ("cause", "text")])
    for group in groups:
        where = f"{group.first:,}" if group.count == 1 else f"{group.first:,}-{group.last:,}"
        table.add(f"{group.count:,}", where, one_line(_place(group)), Text(one_line(_cause(group))))
    shown = sum(group.count for group in groups)
    lines = [f"{counted(explainer.explained, 'failure')} explained, {explainer.unknown:,} not"]
    if shown < explainer.explained:
        lines.append(f"{explainer.explained - shown:,} of other causes")
    return Group(table, Text(""), *map(Text, lines))


def _place(group: Failures) -> str:
    cause = group.cause
    place = f"{cause.file}:{cause.line}" if cause.file else "no single source line"
    return f"{place} ({', '.join(group.models)})" if group.models else place


def _cause(group: Failures) -> str:
    return ": ".join(part for part in (group.cause.where, group.cause.message) if part)


def causes_facts(explainer: Explainer, top: int | None, models: int) -> dict[str, Any]:
    """The causes as JSON shows them."""
    return {
        "failures": explainer.explained + explainer.unknown,
        "models": models,
        "explained": explainer.explained,
        "ambiguous": explainer.ambiguous,
        "unexplained": explainer.unknown,
        "causes": [
            {
                "count": group.count,
                "first_line": group.first,
                "last_line": group.last,
                "models": list(group.models),
                **group.cause._asdict(),
            }
            for group in explainer.causes.top(top)
        ],
        "notes": explainer.notes,
    }
