"""Calls that records may ask for, made: ``print``, loggers and ``warnings.warn``; see ``known_calls``.

Loggers and warnings are told the model's own place, so that what is shown, and which warnings are shown
once, is as in the eager run.
"""

from __future__ import annotations

import builtins
import logging
import warnings
from typing import TYPE_CHECKING, Any

from archive.formats.effects.known_calls import LOG, PRINT, WARN

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.effects.replay.state import State
    from archive.formats.effects.model import GlobalName


def _print(_: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    sep, end = settings
    print(*values, sep=sep, end=end)  # noqa: T201 (the model prints)


def _log(_: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    name, level, filename, line, function = settings
    if not name and not logging.root.handlers:
        logging.basicConfig()
    logger = logging.getLogger(name)
    if logger.isEnabledFor(level):
        message, *arguments = values
        record = logger.makeRecord(
            logger.name, level, filename, line, message, tuple(arguments), None, function
        )
        logger.handle(record)


def _warn(state: State, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    category, filename, line, module = settings
    shown = state.warned.setdefault(module, {})
    warnings.warn_explicit(values[0], getattr(builtins, category), filename, line, module, shown)


CALLS: dict[GlobalName, Callable[[State, tuple[Any, ...], tuple[Any, ...]], None]] = {
    PRINT: _print,
    LOG: _log,
    WARN: _warn,
}
"""Functions that make a call: from the state, its settings and its values."""
