"""Which class of one archive is which of the other.

PyTorch mangles the names of classes that are compiled twice (``___torch_mangle_3``), by a counter of its
process. So names are paired by the places of modules in both trees first, then by what is left of the names
without the counter. Each class is paired once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MANGLED = re.compile(r"\.___torch_mangle_\d+(?=\.)")
CONSTANT = re.compile(r"\bCONSTANTS\.c\d+\b")
QUALIFIED = re.compile(r"__torch__(?:\.\w{1,1000}){1,100}")
"""A name that is longer than any that a person wrote stays as it is."""

NEW = "'"
"""What stands behind a new name that the old archive has for something else."""


def plain(name: str) -> str:
    """A class's name without the number that PyTorch counts.

    >>> plain("__torch__.models.___torch_mangle_3.Block")
    '__torch__.models.Block'
    """
    return MANGLED.sub("", name)


class Pairing:
    """The names of the new archive's classes and functions in terms of the old one's.

    Args:
        old: names of the old archive's classes.
        new: names of the new archive's classes.
        tensors: the new archive's names of tensors by the old one's; constants of code among them.
    """

    def __init__(
        self, old: Iterable[str] = (), new: Iterable[str] = (), tensors: Mapping[str, str] | None = None
    ) -> None:
        self._constants = {now: was for was, now in (tensors or {}).items() if CONSTANT.fullmatch(now)}
        self._old, self._new = set(map(plain, old)), set(map(plain, new))
        self.by_new: dict[str, str] = {}
        self.by_old: dict[str, str] = {}

    def pair(self, old: str, new: str) -> bool:
        """Pair two names, unless one of them is paired already; whether they are a pair now.

        Names that differ in more than the counted number are a pair if neither archive has the other's: then
        the class was renamed.
        """
        is_new = plain(new) not in self._old and plain(old) not in self._new
        if plain(old) != plain(new) and not is_new:
            return False
        if old not in self.by_old and new not in self.by_new:
            self.by_old[old], self.by_new[new] = new, old
        return self.by_old.get(old) == new

    def pair_rest(self, old: Iterable[str], new: Iterable[str]) -> None:
        """Pair names that are equal, then those that differ in the counted number alone, in their order."""
        was = [name for name in old if name not in self.by_old]
        now = [name for name in new if name not in self.by_new]
        for name in set(was).intersection(now):
            self.pair(name, name)
        left: dict[str, list[str]] = {}
        for name in reversed(was):
            if name not in self.by_old:
                left.setdefault(plain(name), []).append(name)
        for name in now:
            if name not in self.by_new and left.get(plain(name)):
                self.pair(left[plain(name)].pop(), name)

    @property
    def renamed(self) -> list[tuple[str, str]]:
        """The pairs, old and new, whose names differ in more than the counted number."""
        return [(old, new) for old, new in self.by_old.items() if plain(old) != plain(new)]

    def in_old_terms(self, text: str) -> str:
        """A text of the new archive with the old archive's names. A constant that is new has a mark."""
        if self._constants:
            text = CONSTANT.sub(lambda match: self._constants.get(match[0], f"{match[0]}{NEW}"), text)
        return QUALIFIED.sub(lambda match: self.old_name(match[0]), text)

    def old_module(self, module: str) -> str:
        """The module of a class of the new archive, in the old one's terms."""
        modules = {new.rpartition(".")[0]: old.rpartition(".")[0] for new, old in self.by_new.items()}
        return modules.get(module, module)

    def old_name(self, name: str) -> str:
        """A qualified name of the new archive, of a class or of something in it, in the old one's terms."""
        head, tail = name, ""
        while "." in head:
            if head in self.by_new:
                return self.by_new[head] + tail
            head, _, last = head.rpartition(".")
            tail = f".{last}{tail}"
        return name
