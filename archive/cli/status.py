"""The exit statuses of commands. A command returns one, and the group ends the process with it."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """The result of a command.

    Attributes:
        WELL: all was done, and nothing is wrong.
        FINDINGS: all was done, and something is wrong: a handle is unknown, an archive is inconsistent, a
            budget is exceeded, one of several files cannot be done.
        FAILED: something could not be done: a usage error, a broken file, a file that cannot be read.
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
