"""The outermost handler: whatever ends a command becomes one line and an exit status, never a traceback.

A closed standard output is refused before anything is done. Closed descriptors are occupied, so that no file
that is opened later takes the place of standard output or standard error.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING

import click

from archive.base.errors import IN_PYTHON, ArchiveError, for_terminal, one_line
from archive.base.problems import NO_SPACE, problem_of
from archive.cli import printing
from archive.cli.showing import showing
from archive.cli.status import Cause
from archive.io.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAST_STANDARD_DESCRIPTOR = 2


class Held(Exception):  # noqa: N818 (it carries an error and isn't one)
    """Carries an exception through click, which would give it an exit status of click's own."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


@contextmanager
def held() -> Iterator[None]:
    """Carry Ctrl-C and a closed pipe past click."""
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError) as error:
        raise Held(error) from error


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt: no file is left half written, and no process left running."""
    import signal  # noqa: PLC0415 (a command about a single file does without)

    from archive.base.signals import handled_by  # noqa: PLC0415 (likewise)

    with handled_by(signal.default_int_handler, [signal.SIGTERM]):
        yield


def exit_status(run: Callable[[], int]) -> int:
    """The exit status of a command, once it has run and its output is flushed.

    Every command ends here, so that status 0 means that the output has arrived.
    """
    try:
        _check_descriptors()
        status = run()
    except BaseException as error:  # noqa: BLE001 (nothing may leave as a traceback)
        status = _report(error)
    try:
        printing.flush()
    except BaseException as error:  # noqa: BLE001 (the same)
        printing.drop(sys.stdout)
        return _report(error) if status < Cause.UNDONE.status else status
    return status


def _check_descriptors() -> None:
    """Occupy closed standard descriptors, and refuse a closed standard output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= LAST_STANDARD_DESCRIPTOR:
        pass
    os.close(descriptor)
    streams = {"stderr": sys.stderr, "stdout": sys.stdout}
    if streams["stderr"] is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (until the process ends)
    if streams["stdout"] is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (the same)
        raise ArchiveError("is closed; nothing is done", file=STANDARD_OUTPUT)


def _report(error: BaseException) -> int:
    """Print what ended the command, for a person; the exit status."""
    match error:
        case Held():
            return _report(error.error)
        case SystemExit():
            return error.code if isinstance(error.code, int) else Cause.UNDONE.status
        case KeyboardInterrupt() | click.Abort():
            printing.print_error("interrupted")
            return Cause.INTERRUPTED.status
        case BrokenPipeError():
            return Cause.CLOSED_PIPE.status
        case click.ClickException():
            _show_usage(error)
            return Cause.USAGE.status
    cause = Cause.UNDONE
    if isinstance(error, OSError) and error.errno in NO_SPACE and not error.filename:
        cause = Cause.LOST_OUTPUT
        error.filename = STANDARD_OUTPUT  # files that are written have names
    problem = problem_of(error)
    printing.print_error(problem.text)
    if showing.verbose:
        import traceback  # noqa: PLC0415 (only then needed)

        lines = [line for line in traceback.format_exception(error) if not line.startswith(IN_PYTHON)]
        printing.complain(for_terminal("".join(lines)))
    return (Cause.FAULT if problem.is_internal else cause).status


def _show_usage(error: click.ClickException) -> None:
    """Show a usage error as click does, but without characters that a terminal obeys."""
    shown_by_click = StringIO()
    error.show(shown_by_click)
    text = shown_by_click.getvalue()
    for word in sys.argv[1:]:
        if not word.isprintable():
            bare = click.unstyle(word)  # as click writes it where it sees no terminal
            text = text.replace(bare, one_line(bare))
    printing.complain(for_terminal(text))
