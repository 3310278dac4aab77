"""The variables of generated code and of instructions, in the old text's terms.

PyTorch numbers variables, so that a new line gives all later ones other names. Lines are aligned by what is
left of them without variables; the variables of two lines that belong together are one. Each new name becomes
one old name, and no two the same: so a text in old terms is the new one but for names, however lines are
aligned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import LimitError
from archive.compare.alignment import aligned
from archive.compare.pairing import NEW
from archive.formats.generated_code import TOKEN, arguments, variables

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from archive.base.limits import Allowance

REGISTER = re.compile(r"%\d+")
SLOT = "•"


TOKEN_BYTES = 80
"""Bytes of memory that a character costs, as a part of lines and names that are compared."""


def code_in_terms_of(old: str, new: str, allowance: Allowance) -> tuple[str, dict[str, str]]:
    """A new function with the names of an old one, and the new name of each variable that has another one."""
    if old == new or not is_allowed(len(old) + len(new), allowance):
        return new, {}
    return _in_terms_of(old, new, arguments(old) | variables(old), arguments(new) | variables(new))


def instructions_in_terms_of(old: str, new: str, allowance: Allowance) -> str:
    """New instructions with the registers of old ones."""
    if old == new or not is_allowed(len(old) + len(new), allowance):
        return new
    return _in_terms_of(old, new, set(REGISTER.findall(old)), set(REGISTER.findall(new)))[0]


def is_allowed(characters: int, allowance: Allowance) -> bool:
    """Whether texts may be compared by their variables; longer ones keep their own names."""
    try:
        with allowance.part() as part:
            part.take(TOKEN_BYTES * characters, "variables")
    except LimitError:
        return False
    return True


def _in_terms_of(
    old: str, new: str, was: AbstractSet[str], now: AbstractSet[str]
) -> tuple[str, dict[str, str]]:
    (old_bare, old_names), (new_bare, new_names) = _lines(old, was), _lines(new, now)
    found: dict[str, str] = {}
    used = set(TOKEN.findall(new)) - now  # what is no variable keeps its name to itself
    for one, other in aligned(old_bare, new_bare)[0]:
        for before, after in zip(old_names[one], new_names[other], strict=True):
            if after not in found and before not in used:
                found[after] = before
                used.add(before)
    told = {before: after for after, before in found.items() if before != after}
    for name in now - found.keys():
        found[name] = name + NEW if name in was else name
    return TOKEN.sub(lambda match: found.get(match[0], match[0]), new), told


def _lines(text: str, known: AbstractSet[str]) -> tuple[list[str], list[list[str]]]:
    """Lines without their variables, and the variables of each."""
    lines = text.split("\n")
    names = [[token for token in TOKEN.findall(line) if token in known] for line in lines]
    bare = [TOKEN.sub(lambda match: SLOT if match[0] in known else match[0], line) for line in lines]
    return bare, names
