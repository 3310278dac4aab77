"""Generated code with attributes whose names Python keeps for itself, as a syntax tree.

``add_module("in", …)`` and a ``ModuleDict`` make such attributes, and PyTorch writes them as they are:

    in : __torch__.Block
    block = self.in

The lite interpreter runs such a model; ``torch.jit.load`` refuses some of these names. Python's parser
refuses all. It gets others of the same length, so that places stay, and the tree has the true ones again.
"""

from __future__ import annotations

import ast
import keyword
import re
from itertools import product
from string import ascii_letters

WORDS = "|".join(keyword.kwlist)
NAMED = re.compile(
    rf"""(?m)"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?<=\.)(?:{WORDS})\b|(?<=^  )(?:{WORDS})(?= : )"""
)
"""A keyword that names an attribute; or a text, to pass over it."""


def parsed(text: str) -> ast.Module:
    """The syntax tree of generated code.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: Python cannot parse it.
    """
    found = {*NAMED.findall(text)} & {*keyword.kwlist}
    if not found:
        return ast.parse(text)
    others = _others(found, text)
    tree = ast.parse(NAMED.sub(lambda one: others.get(one[0], one[0]), text))
    names = {other: name for name, other in others.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            node.attr = names.get(node.attr, node.attr)
        elif isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return tree


def _others(found: set[str], text: str) -> dict[str, str]:
    """For each keyword a name of the same length that is no word of a text."""
    taken = {*re.findall(r"\w+", text), *keyword.kwlist}
    others: dict[str, str] = {}
    for name in sorted(found):
        made = ("".join(letters) for letters in product(ascii_letters, repeat=len(name)))
        other = next((one for one in made if one not in taken), None)
        if other is None:
            raise ValueError("each name of that length is a word of the text")
        others[name] = other
        taken.add(other)
    return others
