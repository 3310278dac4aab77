"""Regular expressions that are compiled when they are first used: a file needs few of many."""

from __future__ import annotations

import re
from typing import AnyStr, cast

METHODS = ("match", "search", "fullmatch", "finditer", "findall", "sub", "split")


class LazyPattern:
    """Stands for a compiled pattern, whose methods it has from the first use of one on."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        compiled = re.compile(self.pattern, self._flags)
        vars(self).update((method, getattr(compiled, method)) for method in METHODS)
        return getattr(compiled, name)


def pattern_of(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A pattern as :func:`re.compile` makes it, but later."""
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))
