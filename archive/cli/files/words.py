"""The texts that commands print about files they have made, by command."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from archive.report.migration_text import (
    migration_facts,
    migration_line,
    migration_text,
    plan_line,
    plan_text,
)
from archive.report.outcome_text import (
    canonical_text,
    convert_text,
    join_line,
    join_text,
    lite_text,
    shrink_text,
    size_line,
    split_line,
    split_text,
)
from archive.report.redaction_text import (
    companion_redaction_line,
    companion_redaction_text,
    redact_line,
    redact_plan_line,
    redact_plan_text,
    redact_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one command.

    Attributes:
        doing: the progress bar's text.
        text: facts and sizes of a single file → its summary.
        line: facts and sizes of one of several files → one line.
        facts: facts → what JSON shows.
        planned: facts and the name of a single file → what a dry run tells before the targets.
        planned_line: the same of one of several files, in one line.
    """

    doing: str
    text: Callable[..., RenderableType]
    line: Callable[..., str]
    facts: Callable[..., dict[str, Any]] = asdict
    planned: Callable[[Any, str], RenderableType] | None = None
    planned_line: Callable[[Any, str], str] | None = None


WORDS = {
    "split": Words("splitting", split_text, split_line),
    "join": Words("joining", join_text, join_line),
    "shrink": Words("shrinking", shrink_text, size_line),
    "restore": Words("restoring", join_text, join_line),
    "redact": Words(
        "redacting", redact_text, redact_line, planned=redact_plan_text, planned_line=redact_plan_line
    ),
    "redact_companion": Words("redacting", companion_redaction_text, companion_redaction_line),
    "migrate": Words("migrating", migration_text, migration_line, migration_facts, plan_text, plan_line),
    "lite": Words("converting", lite_text, size_line),
    "canonicalise": Words("converting", canonical_text, size_line),
    "convert": Words("converting", convert_text, size_line),
}
