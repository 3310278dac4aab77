"""The arguments of a node as ``torch.fx`` prints them.

A graph module's code and the messages of its interpreter print the same arguments in two styles::

    code     full.default([2, 3], 1.5, dtype = torch.float32, pin_memory = False)
    message  args = ([2, 3], 1.5), kwargs = {dtype: torch.float32, pin_memory: False}

Numbers, texts and types are printed as they are recorded. A value is printed by its name, which is ``weight``
for a parameter ``p_weight`` once the program is a module. Source: ``CodeGen._gen_python_code`` in
``torch/fx/graph.py``, ``Node.format_node`` in ``torch/fx/node.py``, and ``GraphModuleDeserializer`` in
``torch/_export/serde/serialize.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import builtins
import re
from enum import Enum
from itertools import islice
from keyword import kwlist
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.formats.tensors.dtypes import SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

LIFTED = re.compile(r"(?:p|b|c|obj)_")
"""Prefixes of parameters, buffers and constants in the program, which its module does not have."""
TAKEN = frozenset(
    (*kwlist, *dir(builtins), "inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree")
)
"""Names that ``torch.fx`` never gives to a value: ``_illegal_names`` in ``torch/fx/graph.py``."""
MAX_PATH = 1_000
"""Characters of a name that may have another form: an expression with alternatives is large."""
MOST_PARTS = 32
"""Number of path endings that may be a name in an inner module."""
FIRST_LINE = 5
"""The line of generated code after its ``def forward``, from 1."""
POSITIONAL, KEYWORD = 1, 2
"""``ArgumentKind``: how an argument is passed."""
LAYOUTS = dict(enumerate("sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc _mkldnn strided".split(), 1))  # noqa: SIM905
MEMORY_FORMATS = dict(
    enumerate("contiguous_format channels_last channels_last_3d preserve_format".split(), 1)  # noqa: SIM905
)
NUMBERED = {"as_scalar_type": SCALARS, "as_layout": LAYOUTS, "as_memory_format": MEMORY_FORMATS}
BRACKETS = {"[": r"[\[(]", "]": r",?[\])]"}
"""Expressions for a list's brackets: it may have been a tuple before it was saved."""
NUMBERS = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}


class Notation(Enum):
    """Where arguments are printed."""

    CODE = "code"
    MESSAGE = "message"


class Operand(NamedTuple):
    """A value among arguments.

    Attributes:
        name: in the program.
    """

    name: str


ANYTHING = None
"""Something whose printed form is unknown here, or differs from machine to machine."""
Piece = str | Operand | None
"""A part of printed arguments: text, a value, or anything."""


def pieces(arguments: Sequence[Any], notation: Notation) -> list[Piece] | None:
    """The parts of a node's printed arguments.

    Args:
        arguments: ``inputs`` of the node, as the JSON has them.
        notation: where they are printed.

    Returns:
        None if it is not recorded how an argument is passed.
    """
    args, kwargs = list[list[Piece]](), list[list[Piece]]()
    sign = " = " if notation is Notation.CODE else ": "
    for argument in arguments:
        kind = argument.get("kind") if isinstance(argument, dict) else None
        if kind not in (POSITIONAL, KEYWORD):
            return None
        printed = _argument(argument.get("arg"), notation)
        if kind == POSITIONAL:
            args.append(printed)
        else:
            kwargs.append([f"{argument.get('name')}{sign}", *printed])
    if notation is Notation.CODE:
        return _joined([*args, *kwargs])
    comma = "," if len(args) == 1 else ""
    return ["args = (", *_joined(args), f"{comma}), kwargs = {{", *_joined(kwargs), "}"]


def text_after(text: str, parts: Iterable[Piece], name: Callable[[str], str]) -> str | None:
    """The rest of a text after printed arguments; None if it does not begin with these arguments.

    Args:
        parts: of the arguments.
        name: a value's name -> the regular expression for how it may be printed.
    """
    at, is_open = 0, False
    for part in parts:
        if part is ANYTHING:
            is_open = True
            continue
        expression = name(part.name) if isinstance(part, Operand) else BRACKETS.get(part) or re.escape(part)
        compiled = re.compile(expression)
        match = compiled.search(text, at) if is_open else compiled.match(text, at)
        if match is None:
            return None
        at, is_open = match.end(), False
    return "" if is_open else text[at:]


def own_name(name: str, inputs: Collection[str], *, is_in_module: bool = False) -> str:
    """The expression for a value's name in the program, and in its module.

    A module names a parameter after its attribute path (``p_queryproj_weight`` of ``queryProj.weight``
    becomes ``query_proj_weight``), and adds a number to names that Python or another input has taken. An
    inner module, as ``torch.export.unflatten`` makes them, has the end of that path (``weight``).

    Args:
        inputs: the names of all values that its graph takes.
        is_in_module: whether it may be the name in an inner module.
    """
    own = LIFTED.sub("", name, count=1)
    if len(name) > MAX_PATH or (own == name and own not in TAKEN):
        return rf"{re.escape(name)}(?!\w)"
    called = own if own == name else _loosely(own)
    if is_in_module and own != name:
        ends = (own[at + 1 :] for at, letter in enumerate(own) if letter == "_")
        called = "|".join([called, *(_loosely(end) for end in islice(ends, MOST_PARTS) if end)])
        called = rf"(?:{called})(?:_\d+)?"
    elif own in TAKEN or own in inputs:
        called = rf"{called}(?:_\d+)?"
    return rf"(?:{re.escape(name)}|{called})(?!\w)"


def _loosely(name: str) -> str:
    """The expression for a name with underscores anywhere."""
    return "_*".join(["", *name.replace("_", ""), ""])


def _joined(items: Sequence[list[Piece]]) -> list[Piece]:
    """Items between commas."""
    return [part for at, item in enumerate(items) for part in ([", ", *item] if at else item)]


def _argument(argument: object, notation: Notation) -> list[Piece]:
    """The parts of an argument: ``{"as_int": 1}``."""
    if not isinstance(argument, dict) or len(argument) != 1:
        return [ANYTHING]
    ((kind, value),) = argument.items()
    if isinstance(value, list):
        if kind == "as_optional_tensors":
            items = [_argument(item, notation) for item in value]
        elif kind in LISTS:
            items = [[_plain(kind.removesuffix("s"), item, notation)] for item in value]
        else:
            return [ANYTHING]
        return ["[", *_joined(items), "]"]
    return [_plain(kind, value, notation)]


LISTS = frozenset(
    f"as_{kind}s" for kind in ("tensor", "int", "float", "bool", "string", "sym_int", "sym_float", "sym_bool")
)
NAMED = frozenset(("as_tensor", "as_custom_obj", "as_graph"))


def _plain(kind: str, value: object, notation: Notation) -> Piece:
    if kind == "as_none":
        return "None"
    if kind in NAMED and isinstance(value, dict) and isinstance(value.get("name"), str):
        return Operand(value["name"])
    if kind.startswith("as_sym_") and isinstance(value, dict) and len(value) == 1:
        ((inner, inner_value),) = value.items()
        return (
            Operand(inner_value)
            if inner == "as_name" and isinstance(inner_value, str)
            else _plain(inner, inner_value, notation)
        )
    if kind in ("as_int", "as_float", "as_bool"):
        return NUMBERS.get(value) if isinstance(value, str) else repr(value)
    if kind == "as_operator" and isinstance(value, str):
        return value if notation is Notation.CODE else ANYTHING
    if kind == "as_string" and isinstance(value, str):
        return repr(value) if notation is Notation.CODE else value
    known = NUMBERED.get(kind, {}).get(value) if isinstance(value, int) else None
    return None if known is None else f"torch.{known}"
