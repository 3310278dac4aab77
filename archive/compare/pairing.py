"""Names of the new archive in the old one's terms: of classes, and of variables.

PyTorch mangles the names of classes that are compiled twice (``___torch_mangle_3``), by a counter of its
process. So classes are paired by the places of modules in both trees first, then by what is left of the names
without the counter. Each class is paired once.

PyTorch numbers variables of code and registers of instructions, so that a new line gives all later ones other
names. Lines are aligned by what is left of them without variables; the variables of two lines that belong
together are one, unless more lines differ then than with their own names. Each new name becomes one old name,
and no two the same: so a text in old terms is the new one but for names, however lines are aligned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import LimitError
from archive.compare.alignment import aligned, differing
from archive.compare.generated_code import TOKEN, arguments, variables
from archive.formats import mangling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet


MANGLED = re.compile(rf"\.{mangling.MANGLED}(?=\.)")
CONSTANT = re.compile(r"\bCONSTANTS\.c\d+\b")
QUALIFIED = re.compile(r"__torch__(?:\.\w{1,1000}){1,100}")
"""A name that is longer than any that a person wrote stays as it is."""

NEW = "'"
"""What follows a new name that the old archive has for something else."""
REGISTER = re.compile(r"%\d+")
SLOT = "•"
"""Stands for a variable in a line without variables."""


# --- classes


def plain(name: str) -> str:
    """A class's name without the number that PyTorch counts.

    >>> plain("__torch__.models.___torch_mangle_3.Block")
    '__torch__.models.Block'
    """
    return MANGLED.sub("", name)


class Pairing:
    """The names of the new archive's classes and functions in terms of the old one's.

    Args:
        tensors: the new archive's names of tensors by the old one's; constants of code among them.
    """

    def __init__(
        self, old: Iterable[str] = (), new: Iterable[str] = (), tensors: Mapping[str, str] | None = None
    ) -> None:
        self._constants = {now: was for was, now in (tensors or {}).items() if CONSTANT.fullmatch(now)}
        self._old, self._new = set(map(plain, old)), set(map(plain, new))
        self.by_new: dict[str, str] = {}
        self.by_old: dict[str, str] = {}
        self._old_modules: dict[str, str] = {}

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
            self._old_modules[new.rpartition(".")[0]] = old.rpartition(".")[0]
        return self.by_old.get(old) == new

    def pair_rest(self, old: Iterable[str], new: Iterable[str]) -> None:
        """Pair names that are equal, then, in order, those that differ only in the counted number."""
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
        return self._old_modules.get(module, module)

    def old_name(self, name: str) -> str:
        """A qualified name of the new archive, of a class or of something in it, in the old one's terms."""
        head, tail = name, ""
        while "." in head:
            if head in self.by_new:
                return self.by_new[head] + tail
            head, _, last = head.rpartition(".")
            tail = f".{last}{tail}"
        return name


# --- variables


def code_in_terms_of(old: str, new: str) -> tuple[str, dict[str, str]]:
    """A new function with the names of an old one, and the new name of each variable that has another one."""
    if old == new or not is_allowed(len(old) + len(new)):
        return new, {}
    return _in_terms_of(old, new, arguments(old) | variables(old), arguments(new) | variables(new))


def instructions_in_terms_of(old: str, new: str) -> str:
    """New instructions with the registers of old ones."""
    if old == new or not is_allowed(len(old) + len(new)):
        return new
    return _in_terms_of(old, new, set(REGISTER.findall(old)), set(REGISTER.findall(new)))[0]


def is_allowed(characters: int) -> bool:
    """Whether texts may be compared by their variables; longer ones keep their own names."""
    try:
        with memory.part():
            memory.take(10 * memory.NUMBER * characters, "variables")
    except LimitError:
        return False
    return True


def _in_terms_of(
    old: str, new: str, was: AbstractSet[str], now: AbstractSet[str]
) -> tuple[str, dict[str, str]]:
    (old_bare, old_names), (new_bare, new_names) = _lines(old, was), _lines(new, now)
    terms: dict[str, str] = {}
    used = set(TOKEN.findall(new)) - now  # what isn't a variable keeps its name
    for old_at, new_at in aligned(old_bare, new_bare)[0]:
        for before, after in zip(old_names[old_at], new_names[new_at], strict=True):
            if after not in terms and before not in used:
                terms[after] = before
                used.add(before)
    renamed = {before: after for after, before in terms.items() if before != after}
    for name in now - terms.keys():
        terms[name] = name + NEW if name in was else name
    text = TOKEN.sub(lambda match: terms.get(match[0], match[0]), new)
    return (new, {}) if _differing_lines(old, new) < _differing_lines(old, text) else (text, renamed)


def _differing_lines(old: str, new: str) -> int:
    blocks = differing(old.split("\n"), new.split("\n"))
    return sum(block.old_end - block.old + block.new_end - block.new for block in blocks)


def _lines(text: str, known: AbstractSet[str]) -> tuple[list[str], list[list[str]]]:
    """Lines without their variables, and the variables of each."""
    lines = text.split("\n")
    names = [[token for token in TOKEN.findall(line) if token in known] for line in lines]
    bare = [TOKEN.sub(lambda match: SLOT if match[0] in known else match[0], line) for line in lines]
    return bare, names
