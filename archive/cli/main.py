"""The start and the end of the process."""

from __future__ import annotations

import atexit
import gc
import sys

GARBAGE = 1 << 16
"""New objects after which garbage is looked for: a command imports many modules, which aren't garbage."""


def main() -> None:
    """Run the command, and end the process with an exit status whatever happens.

    Raises:
        SystemExit: always, with the exit status.
    """
    gc.set_threshold(GARBAGE)
    # Else the interpreter looks for garbage again at its end: a tenth of a short command.
    atexit.register(gc.freeze)
    from archive.cli.commands import run  # noqa: PLC0415 (click is imported without looking for garbage)
    from archive.cli.ending import exit_status  # noqa: PLC0415 (the same)

    sys.exit(exit_status(run))
