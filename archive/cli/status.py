"""How commands end: the exit statuses, and the whole policy of what leads to which.

A command names a cause, never a status: ``Cause.DIFFERS.when(diff.changes)``; ``status_of`` does it for what
came of a file, and ``ending`` for errors. Of several causes and of several files the gravest counts, which is
the largest number. Files that a search leaves out count for nothing. A file that is broken, or exceeds a
limit, is what ``verify`` is there to report: a finding of it, and of every other command a failure.

The help of a command has its rows, ``docs/reference/statuses.md`` all, and ``tests/cli/test_statuses.py`` an
example of each.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.diagnostics import Severity
    from archive.batches.outcome import Outcome


class ExitStatus(IntEnum):
    """The result of a command.

    Attributes:
        INTERNAL: a fault of this program; ``EX_SOFTWARE`` of sysexits.h.
        INTERRUPTED: Ctrl-C or SIGTERM ended it; 128 + SIGINT, as shells have it.
        CLOSED_PIPE: the reader of its output has closed the pipe; 128 + SIGPIPE.
    """

    WELL = 0
    FINDINGS = 1
    FAILED = 2
    INTERNAL = 70
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class _Row(NamedTuple):
    status: ExitStatus
    commands: str
    words: str


ONE, TWO = ExitStatus.FINDINGS, ExitStatus.FAILED
MAKERS = "`split`, `join`, `shrink`, `restore`, `redact`, `migrate`, `convert`, `lite`"


class Cause(_Row, Enum):
    """Why a command does not end with 0: the status, the commands, and the cause in words."""

    UNKNOWN = ONE, "`symbolicate`", "a handle, a name or a position has no known source"
    UNEXPLAINED = ONE, "`symbolicate`", "a failure in the log stays unexplained"
    UNREAD_MODEL = ONE, "`symbolicate`", "one of several models, or a log shipper's record, cannot be read"
    NO_DEBUG_INFO = ONE, "`profile`", "operations have no debug info"
    INCONSISTENT = ONE, "`verify`", "a file has an error: it is broken, say, or a limit is exceeded"
    REVEALING = ONE, "`leaks`", "a file has findings, or texts that `--review` lists and nobody has accepted"
    NOT_CLEAN = ONE, "`redact`", "something is left; nothing is written without `--partial`"
    ANOTHER_FILE = (
        ONE,
        "`join`, `restore`",
        "the companion is of another file of this model, so that what is made is neither of the two",
    )
    IMPOSSIBLE = ONE, MAKERS, "nothing is wrong with one of several files, but this cannot be done to it"
    OVER_BUDGET = ONE, "`sizes`", "a budget is exceeded"
    DIFFERS = ONE, "`diff`", "something differs that `--ignore` does not name, or only one folder has a file"
    PARTS = ONE, "`run`", "with `--base`, a value is beyond the tolerance; with `--first-nan`, there is one"
    OTHER_DIGEST = ONE, "`digest --check`", "a file has another digest than in the list"
    BAD_STORE = ONE, "`store ls`, `store check`", "a companion is broken, or something else lies in the store"
    NO_COMPANION = ONE, "`store ls`", "no companion fits a pattern"
    FALSE_CLAIM = ONE, "`demo`", "a claim does not hold"
    UNDONE = (
        TWO,
        "all",
        "a file is refused, missing or cannot be written; but for `verify`, it is broken or exceeds a limit",
    )
    USAGE = TWO, "all", "options or arguments are wrong, or do not go together"
    BAD_BUDGET = TWO, "`sizes`", "a budget names a label that does not exist, or fits no file"
    LOST_OUTPUT = TWO, "all", "the disk of standard output is full"
    FAULT = ExitStatus.INTERNAL, "all", "a fault of this program"
    INTERRUPTED = ExitStatus.INTERRUPTED, "all", "Ctrl-C or SIGTERM"
    CLOSED_PIPE = (
        ExitStatus.CLOSED_PIPE,
        "all",
        "the reader of the output has closed the pipe",
    )

    def when(self, holds: object) -> ExitStatus:
        """The status where something holds, and else 0."""
        return self.status if holds else ExitStatus.WELL


BY_SEVERITY: Mapping[Severity, Cause] = {
    "error": Cause.INCONSISTENT,
    "not checked": Cause.UNDONE,
    "internal error": Cause.FAULT,
}
"""What diagnostics lead to."""


def causes_text(command: str) -> str:
    """What ends a command with another status than 0, but for what ends any so: paragraphs of its help."""
    return "\n\n".join(
        f"Exit status {cause.status}: {cause.words}."
        for cause in Cause
        if command in {name.strip("`").partition(" --")[0] for name in cause.commands.split(", ")}
    )


def status_of(outcome: Outcome[Any, Any]) -> ExitStatus:
    """What a file counts for, by what came of it; findings about it are the command's."""
    from archive.batches.outcome import OutcomeKind  # noqa: PLC0415 (whoever has an outcome has imported it)

    if outcome.has_failed:
        return (Cause.FAULT if outcome.is_internal else Cause.UNDONE).status
    if outcome.kind is OutcomeKind.IMPOSSIBLE:
        return Cause.IMPOSSIBLE.status
    unclean = Cause.ANOTHER_FILE if hasattr(outcome.facts, "another") else Cause.NOT_CLEAN
    return unclean.when(not outcome.is_clean)
