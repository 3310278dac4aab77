"""Writes an operation as one TorchScript statement.

Operators are called through ``torch.ops``, with keyword-only arguments by name. Operators on numbers, texts,
lists and dicts are, too, so that TorchScript chooses the overload that it chose in the model. Operations that
``torch.ops`` does not have are written as in Python.
"""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING

import torch

from archive.backend.lower.codegen import tuple_literal
from archive.backend.lower.literals import annotated
from archive.effects.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.backend.graph.graphs import Operation

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
EXPRESSION_TEMPLATES = {
    "prim::TupleIndex": "{0}[{1}]",
    "prim::shape": "{0}.shape",
    "prim::type": "{0}.type",
    "prim::unchecked_cast": "torch.jit._unwrap_optional({0})",
}
"""Expressions for operators that ``torch.ops`` lacks, or has with another result type."""
EXPRESSION_WRITERS: dict[str, Callable[[list[str], str], str]] = {
    "prim::DictConstruct": lambda words, kind: _collected(kind, "{" + ", ".join(_pairs(words)) + "}"),
    "prim::ListConstruct": lambda words, kind: _collected(kind, f"[{', '.join(words)}]"),
    "prim::TupleConstruct": lambda words, _: tuple_literal(words),
    "prim::tolist": lambda words, kind: annotated(kind, f"{words[0]}.tolist()"),
    "aten::format": lambda words, _: f"{words[0]}.format({', '.join(words[1:])})",
    "aten::percentFormat": lambda words, _: f"{words[0]} % ({', '.join(words[1:])})",
}
"""Expressions for operators that take any number of values, or whose result type must be written down."""
DICT_OF_PAIRS = tuple(f"aten::dict.{kind}((" for kind in ("str", "int", "bool", "float", "complex", "Tensor"))
"""How the schemas of operators begin that make a dict of a list of pairs."""
UNPACKING = ("prim::ListUnpack", "prim::TupleUnpack")


def statement(operation: Operation, words: list[str], outputs: list[str], kind: str) -> str:
    """The statement that runs an operation.

    Args:
        operation: the operation.
        words: the expressions for its inputs.
        outputs: the names of its outputs.
        kind: type of the first output; "" if there is none.

    Raises:
        LoweringError: TorchScript has no statement for it.
    """
    if operation.kind == "prim::RaiseException":
        return f"raise {_exception(words[1:])}({words[0]})"
    if operation.kind == "prim::Print":
        return f"print({', '.join(words)})"
    if operation.kind in UNPACKING:
        return f"{' '.join(f'{name},' for name in outputs)} = {words[0]}" if outputs else "pass"
    if operation.kind in EXPRESSION_TEMPLATES:
        made = EXPRESSION_TEMPLATES[operation.kind].format(*words)
    elif operation.schema.startswith(DICT_OF_PAIRS):
        made = _collected(kind, _dict_of_pairs(f"{outputs[0]}_pair", words[0]))
    elif operation.kind in EXPRESSION_WRITERS:
        made = EXPRESSION_WRITERS[operation.kind](words, kind)
    else:
        made = _call(operation, words)
    return f"{', '.join(outputs)} = {made}" if outputs else made


def _exception(words: list[str]) -> str:
    """The class of a raised exception, which PyTorch shows: itself if it is Python's own, else Exception."""
    name = words[0].strip("'").removeprefix("builtins.") if words else ""
    kind = getattr(builtins, name, None)
    return name if isinstance(kind, type) and issubclass(kind, Exception) else "Exception"


def _collected(kind: str, text: str) -> str:
    """A list or dict with its type; without if it holds objects of a class, whose type its items tell."""
    return text if "__torch__" in kind and len(text) > len("[]") else annotated(kind, text)


def _pairs(words: list[str]) -> list[str]:
    return [f"{key}: {value}" for key, value in zip(words[::2], words[1::2], strict=True)]


def _dict_of_pairs(pair: str, pairs: str) -> str:
    """A dict of a list of pairs: PyTorch's operator for it fails in the lite interpreter.

    Args:
        pair: the name of each pair in turn.
        pairs: the expression for the list.
    """
    return f"{{{pair}[0]: {pair}[1] for {pair} in {pairs}}}"


def _call(operation: Operation, words: list[str]) -> str:
    """A call of an operator through ``torch.ops``.

    Raises:
        LoweringError: ``torch.ops`` does not have it, or not with these inputs.
    """
    space, _, name = operation.kind.partition("::")
    if not operation.schema or not IDENTIFIER.fullmatch(space) or not IDENTIFIER.fullmatch(name):
        raise LoweringError(operation.kind)
    schema = torch._C.parse_schema(operation.schema)
    if len(schema.arguments) != len(words) or not hasattr(getattr(torch.ops, space), name):
        raise LoweringError(operation.kind)
    given = [
        f"{argument.name}={word}" if argument.kwarg_only else word
        for argument, word in zip(schema.arguments, words, strict=True)
    ]
    return f"torch.ops.{space}.{name}({', '.join(given)})"
