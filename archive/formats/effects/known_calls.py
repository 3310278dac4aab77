"""Calls that a record may ask for: of ``print``, of loggers and of ``warnings.warn``; nothing else is called.

The source of a call names the function. Its key holds settings that are the same in each call, its value what
is printed:

===================  =====================================================  ==============================
source               key                                                    value
===================  =====================================================  ==============================
builtins.print       sep, end                                               what is printed
logging.getLogger    name of the logger, level, filename, line, function    the message and its arguments
warnings.warn        category, filename, line, Python module                the text
===================  =====================================================  ==============================

Filename, line and function are the model's, which formatters and filters of warnings see. A logger named ""
stands for ``logging.info`` and its kin: they set up the root logger if nobody did.
"""

from __future__ import annotations

import re
from dataclasses import replace
from string import Formatter
from typing import TYPE_CHECKING

from archive.formats.effects.model import Constant, GlobalName, Made

if TYPE_CHECKING:
    from archive.formats.effects.model import Effect

PRINT = GlobalName("builtins", "print")
LOG = GlobalName("logging", "getLogger")
WARN = GlobalName("warnings", "warn")
SETTINGS: dict[GlobalName, tuple[type, ...]] = {
    PRINT: (str, str),
    LOG: (str, int, str, int, str),
    WARN: (str, str, int, str),
}
"""Types of each function's settings."""
PLACES = {LOG: 2, WARN: 1}
"""Index of the filename among the settings; its line follows."""
CATEGORIES = (
    "Warning",
    "UserWarning",
    "DeprecationWarning",
    "PendingDeprecationWarning",
    "FutureWarning",
    "RuntimeWarning",
    "SyntaxWarning",
    "ImportWarning",
    "UnicodeWarning",
    "BytesWarning",
    "ResourceWarning",
)
"""Categories of warnings: Python's own."""
MOST_OF_A_NAME = 1000
"""Most characters of a logger's name: Python keeps each prefix of it that ends before a dot."""
LEVELS = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}
"""Methods of loggers, by level."""
SPEC = re.compile(r"[^0-9{}]*(?:[0-9]{1,3}(?![0-9])[^0-9{}]*){0,2}")
"""A format specification that asks for at most 999 characters and 999 digits."""


def is_template(text: str, count: int) -> bool:
    """Whether a text is a template of ``str.format`` for ``count`` values, by their numbers in order."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return False
    fields = [(name, spec, conversion) for _, name, spec, conversion in parts if name is not None]
    return [name for name, _, _ in fields] == [str(number) for number in range(count)] and all(
        conversion is None and SPEC.fullmatch(spec or "") and (spec or "").isascii()
        for _, spec, conversion in fields
    )


def problem_of(effect: Effect) -> str | None:
    """What is wrong with a call; None if nothing is."""
    if not isinstance(effect.source, GlobalName) or effect.source not in SETTINGS:
        return "a function that no record may call"
    settings = effect.key.value if isinstance(effect.key, Constant) else None
    wanted = SETTINGS[effect.source]
    if not isinstance(settings, tuple) or tuple(map(type, settings)) != wanted:
        return f"its settings aren't {', '.join(one.__name__ for one in wanted)}"
    if effect.source == WARN and settings[0] not in CATEGORIES:
        return f"{settings[0]!r} isn't one of Python's own warnings"
    if effect.source == LOG and len(str(settings[0])) > MOST_OF_A_NAME:
        return f"a logger whose name has more than {MOST_OF_A_NAME:,} characters"
    count = len(effect.value.items) if isinstance(effect.value, Made) and effect.value.kind == "tuple" else -1
    if count < 0 or (effect.source == LOG and not count) or (effect.source == WARN and count != 1):
        return "what it prints is missing"
    return None


def without_place(effect: Effect) -> Effect:
    """The same call from line 0 of an unnamed file."""
    at = PLACES.get(effect.source) if isinstance(effect.source, GlobalName) else None
    if at is None or not isinstance(effect.key, Constant) or not isinstance(effect.key.value, tuple):
        return effect
    settings = effect.key.value
    return replace(effect, key=Constant((*settings[:at], "", 0, *settings[at + 2 :])))
