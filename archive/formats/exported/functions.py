"""``torch_fn`` and ``source_fn_stack`` of a node: which function or module of Python made the node.

    torch_fn        = NAME ';' FUNCTION                   linear_3;builtin_function_or_method.linear
    source_fn_stack = Source (';' Source)*                outermost first
    Source          = NAME ',' FUNCTION                   relu_1,torch.nn.functional.relu

NAME is the node's in the graph of that time; strict export alone writes ``source_fn_stack``. Source:
``serialize_metadata`` in ``torch/_export/serde/serialize.py`` of PyTorch 2.13.
"""

from __future__ import annotations

from typing import NamedTuple


class Function(NamedTuple):
    """What made a node.

    Attributes:
        name: of the node then.
        function: the function or class.
    """

    name: str
    function: str


def parse_function(text: str) -> Function | None:
    """A ``torch_fn``; None where it is not laid out as described."""
    name, separator, function = text.partition(";")
    return Function(name, function) if separator else None


def build_function(function: Function) -> str:
    """The text of a ``torch_fn``."""
    return f"{function.name};{function.function}"


def parse_functions(text: str) -> tuple[Function, ...] | None:
    """A ``source_fn_stack``; None where it is not laid out as described."""
    found = []
    for item in text.split(";"):
        name, separator, function = item.partition(",")
        if not separator:
            return None
        found.append(Function(name, function))
    return tuple(found)


def build_functions(functions: tuple[Function, ...]) -> str:
    """The text of a ``source_fn_stack``."""
    return ";".join(f"{one.name},{one.function}" for one in functions)
