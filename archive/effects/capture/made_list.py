"""The base of lists that a call makes of lists of unknown length."""

from __future__ import annotations

from typing import Any


class MadeList(list[Any]):
    """A new list, whose items are not known, or those of the list that it derives from."""

    def contents(self) -> list[Any]:
        """The items in the captured call: real ones, and proxies of those that the call has made."""
        raise NotImplementedError

    def keep(self) -> None:
        """Make the list a value for effects to keep: a node of the graph, or a list of known items."""
        raise NotImplementedError
