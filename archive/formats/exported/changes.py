"""What an exported program changes and returns, as its signature says.

    "output_specs": [{"buffer_mutation": {"arg": {"name": "add"}, "buffer_name": "block.count"}},
                     {"user_output": {"arg": {"as_tensor": {"name": "mul"}}}}, …]

The graph returns new values beside its results; the runtime copies each to the buffer, parameter or argument.
Only functional programs, which ``run_decompositions`` makes, have all changes there: operators of others
write in place. Source: ``torch/_export/serde/schema.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CHANGES = {
    "buffer_mutation": "buffer_name",
    "parameter_mutation": "parameter_name",
    "user_input_mutation": "user_input_name",
}
"""The values of a graph that are new ones of something, and the key of its name."""
ARGUMENT = "user_input_mutation"
RESULTS = ("user_output", "loss_output")
IN_PLACE = re.compile(r"torch\.ops\.\w+\.(?!detach_)\w*[a-z0-9]_\.\w+")
"""Operators that write their first argument, by PyTorch's names of them; ``detach_`` writes nothing."""


class ProgramChange(NamedTuple):
    """A change that a program makes.

    Attributes:
        name: of the argument, or of the buffer or parameter in the model: ``block.count``.
        is_argument: whether it is an argument.
        number: of the new value among the values that the graph gives.
        maker: the name of the node that makes it.
    """

    name: str
    is_argument: bool
    number: int
    maker: str


class ProgramOutputs(NamedTuple):
    """What a graph gives: new values, in their order, and the numbers of the program's results."""

    changes: tuple[ProgramChange, ...]
    results: tuple[int, ...]


def outputs_of(tree: object) -> ProgramOutputs:
    """What a program's graph gives; nothing where it has no signature in this form."""
    specs = _in(_in(_in(tree, "graph_module"), "signature"), "output_specs")
    changes, results = list[ProgramChange](), list[int]()
    for number, spec in enumerate(specs if isinstance(specs, list) else ()):
        if any(_in(spec, kind) is not None for kind in RESULTS):
            results.append(number)
        for kind, key in CHANGES.items():
            name, maker = _in(_in(spec, kind), key), _in(_in(_in(spec, kind), "arg"), "name")
            if isinstance(name, str) and isinstance(maker, str):
                changes.append(ProgramChange(name, kind == ARGUMENT, number, maker))
    return ProgramOutputs(tuple(changes), tuple(results))


def _in(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
