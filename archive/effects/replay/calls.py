"""Calls that records may ask for, made: ``print``, loggers and ``warnings.warn``; see ``known_calls``.

Loggers and warnings are told the model's own place, so that what is shown, and which warnings are shown
once, is as in the eager run.
"""

from __future__ import annotations

import builtins
import linecache
import logging
import re
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from archive.effects.errors import StateError
from archive.effects.looking import check_shown
from archive.formats.effects.known_calls import LOG, PRINT, WARN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.effects.replay.state import State
    from archive.formats.effects.model import GlobalName

WIDE = re.compile(r"(?<!%)(?:%%)*%(?:\([^()%]*\))?+[^%a-zA-Z]*(?:[0-9]{4}|\*|\()")
"""A field of a message: wider than 999 characters, of a width that an argument tells, or of an odd name."""


def _print(_: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    check_shown(*values)
    sep, end = settings
    print(*values, sep=sep, end=end)  # noqa: T201 (the model prints)


def _log(_: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    check_shown(*values)
    name, level, filename, line, function = settings
    if not name and not logging.root.handlers:
        logging.basicConfig()
    logger = logging.getLogger(name)
    if logger.isEnabledFor(level):
        message, *arguments = values
        if arguments and WIDE.search(str(message)):
            raise StateError("a message whose fields are more than 999 characters wide")
        record = logger.makeRecord(
            logger.name, level, filename, line, message, tuple(arguments), None, function
        )
        logger.handle(record)


def _warn(state: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    check_shown(*values)
    category, filename, line, module = settings
    shown = state.warned.setdefault(module, {})
    with _unread(filename):
        warnings.warn_explicit(values[0], getattr(builtins, category), filename, line, module, shown)


@contextmanager
def _unread(filename: str) -> Iterator[None]:
    """Keep ``warnings`` from reading a file to show its line, unless that is a loaded Python module's own.

    A record may name any file: one that never ends, a pipe, or one whose lines are nobody's business.
    """
    loaded = filename in linecache.cache or any(
        getattr(one, "__file__", None) == filename for one in list(sys.modules.values())
    )
    if loaded:
        yield
        return
    linecache.cache[filename] = (0, None, [], filename)
    try:
        yield
    finally:
        linecache.cache.pop(filename, None)


CALLS: dict[GlobalName, Callable[[State, tuple[Any, ...], tuple[Any, ...]], None]] = {
    PRINT: _print,
    LOG: _log,
    WARN: _warn,
}
"""Functions that make a call: from the state, its settings and its values."""
