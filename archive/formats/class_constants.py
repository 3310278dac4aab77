"""The constants of classes in generated code, which PyTorch writes in no order.

``  in_features : Final[int] = 4`` is a constant of a module. PyTorch takes the names in ``__constants__`` of
a Python class through a set, so another process writes the same lines in another order. Code names constants,
and never counts them.
"""

from __future__ import annotations

import re

CONSTANTS = re.compile(r"(?:^  \w+ : Final\[[^\n]*\n){2,}", re.MULTILINE)
LINE = re.compile(r"[^\n]*\n")


def constants_sorted(text: str) -> str:
    r"""The text of a class with its constants sorted by name.

    >>> constants_sorted("class A(Module):\n  q : Final[int] = 2\n  p : Final[int] = 1\n")
    'class A(Module):\n  p : Final[int] = 1\n  q : Final[int] = 2\n'
    """
    return CONSTANTS.sub(lambda found: "".join(sorted(LINE.findall(found[0]))), text)
