"""Generated code whose text differs from one saving of a model to the next: local variables, and constants.

PyTorch numbers local variables, so that one new line renames all later ones. A function in *canonical* form
has ``%0``, ``%1`` … for its variables, in the order in which they come first. A value that is named only to
be returned has no name there. Arguments of the model's own methods keep their names, because callers use
them; tracing names those of other modules like variables.

``  in_features : Final[int] = 4`` is a constant of a module. PyTorch takes the names in ``__constants__`` of
a Python class through a set, so another process writes the same lines in another order. Code names constants,
and never counts them.
"""

from __future__ import annotations

import re

TOKEN = re.compile(r""""(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?|(?<![\w.%])%?\w++(?!=[^=])""")
"""A text in quotes, or a word that is neither an attribute nor a keyword of a call; ``%3`` is a register.
What no quote closes goes to the end of its line, which bounds the search."""
ASSIGNED = re.compile(r"^ +(?:((?:\w+, )*\w+),? =|for (\w+) in) ", re.MULTILINE)
"""The variables that a statement sets."""
ARGUMENT = re.compile(r"[(,]\s*(\w+)(?=: )")
"""An argument of a method."""
FUNCTION = re.compile(r"^(?=(?:  )?def )", re.MULTILINE)
"""Where a function or method begins."""
RETURNED = re.compile(r"^( +)(\w+) = ([^\n]*)\n\1return \2$", re.MULTILINE)
"""A value that is returned by its name."""
CONSTANTS = re.compile(r"(?:^  \w+ : Final\[[^\n]*\n){2,}", re.MULTILINE)
LINE = re.compile(r"^[^\n]*\n", re.MULTILINE)


def arguments(function: str) -> set[str]:
    """The names of a function's arguments, without ``self``."""
    return set(ARGUMENT.findall(function.partition(" -> ")[0])) - {"self"}


def variables(function: str) -> set[str]:
    """The names of a function's variables, without its arguments."""
    names: set[str] = set()
    for assigned, counted in ASSIGNED.findall(function.partition(" -> ")[2]):
        names.update(assigned.split(", ") if assigned else [counted])
    return names - arguments(function) - {"self"}


def canonical(code: str, *, keeps_arguments: bool) -> str:
    r"""Functions, or a class with its methods, in canonical form.

    >>> code = "def f(x: Tensor) -> Tensor:\n  y0 = neg(x)\n  z = add(y0, y0)\n  return z\n"
    >>> canonical(code, keeps_arguments=True)
    'def f(x: Tensor) -> Tensor:\n  %0 = neg(x)\n  return add(%0, %0)\n'
    """
    return "".join(_canonical(function, keeps_arguments=keeps_arguments) for function in FUNCTION.split(code))


def _canonical(function: str, *, keeps_arguments: bool) -> str:
    known = variables(function)
    numbers: dict[str, int] = {}

    def returned(match: re.Match[str]) -> str:
        indent, name, value = match.groups()
        return f"{indent}return {value}" if name in known else match[0]

    def numbered(match: re.Match[str]) -> str:
        token = match[0]
        return f"%{numbers.setdefault(token, len(numbers))}" if token in known else token

    plain = RETURNED.sub(returned, function)
    if not keeps_arguments:
        known |= arguments(function)
    return TOKEN.sub(numbered, plain)


def constants_sorted(text: str) -> str:
    r"""The text of a class with its constants sorted by name.

    >>> constants_sorted("class A(Module):\n  q : Final[int] = 2\n  p : Final[int] = 1\n")
    'class A(Module):\n  p : Final[int] = 1\n  q : Final[int] = 2\n'
    """
    return CONSTANTS.sub(lambda match: "".join(sorted(LINE.findall(match[0]))), text)
