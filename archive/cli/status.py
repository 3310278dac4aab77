"""How commands end: the exit statuses, and the whole policy of what leads to which.

A command names a cause, never a status: ``Cause.DIFFERS.when(diff.changes)``; ``status_of`` does it for what
came of a file, and ``ending`` for errors. Of several causes and of several files the gravest counts, which is
the largest number. Files that a search leaves out count for nothing.

``docs/reference/statuses.md`` has the same rows, and ``tests/cli/test_statuses.py`` an example of each.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from archive.batches.outcome import Outcome


class ExitStatus(IntEnum):
    """The result of a command.

    Attributes:
        WELL: all was done, and nothing is wrong.
        FINDINGS: all was done, and something is wrong.
        FAILED: something could not be done.
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
    INCONSISTENT = ONE, "`verify`", "a file has an error"
    REVEALING = ONE, "`leaks`", "a file reveals something, or has a text that `--review` lists"
    NOT_CLEAN = ONE, "`redact`", "something is left: nothing is written, or with `--partial` all the same"
    ANOTHER_FILE = ONE, "`join`", "archive and companion are of two files of one model; also of a single file"
    IMPOSSIBLE = (
        ONE,
        MAKERS,
        "the command cannot do this to one of several files, with which nothing is wrong",
    )
    OVER_BUDGET = ONE, "`sizes`", "a budget is exceeded"
    DIFFERS = ONE, "`diff`", "something differs that `--ignore` does not name, or only one folder has a file"
    OTHER_DIGEST = ONE, "`digest --check`", "a file has another digest than in the list"
    BAD_STORE = ONE, "`store ls`, `store check`", "a companion is broken, or something else lies in the store"
    NO_COMPANION = ONE, "`store ls`", "no companion fits a pattern"
    FALSE_CLAIM = ONE, "`demo`", "a claim does not hold"
    UNDONE = (
        TWO,
        "all",
        "a file is broken, refused, not there, or cannot be checked or written; an exceeded limit",
    )
    USAGE = TWO, "all", "options, arguments or their combination are wrong"
    BAD_BUDGET = TWO, "`sizes`", "a budget names an unknown label, or no file"
    LOST_OUTPUT = TWO, "all", "standard output is closed, or its disk is full"
    FAULT = ExitStatus.INTERNAL, "all", "a fault of this program"
    INTERRUPTED = ExitStatus.INTERRUPTED, "all", "Ctrl-C or SIGTERM"
    CLOSED_PIPE = ExitStatus.CLOSED_PIPE, "all", "the reader of the output has closed the pipe"

    def when(self, holds: object) -> ExitStatus:
        """The status where something holds, and else 0."""
        return self.status if holds else ExitStatus.WELL


def status_of(outcome: Outcome[Any, Any]) -> ExitStatus:
    """What a file counts for, by what came of it; findings about it are the command's."""
    from archive.batches.outcome import OutcomeKind  # noqa: PLC0415 (whoever has an outcome has imported it)

    if outcome.kind is OutcomeKind.FAILED:
        return (Cause.FAULT if outcome.is_internal else Cause.UNDONE).status
    return max(
        Cause.IMPOSSIBLE.when(outcome.kind is OutcomeKind.IMPOSSIBLE),
        Cause.NOT_CLEAN.when(not outcome.is_clean),
    )
