"""What an exported program takes from its caller: name, dtype and sizes of each input, in their order.

    "signature":         {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "ids"}}}}, …], …}
    "tensor_values":     {"ids": {"dtype": 5, "sizes": [{"as_expr": {"expr_str": "s0", …}}, …], …}}
    "range_constraints": {"s0": {"min_val": 2, "max_val": 5}}

``signature`` is the graph module's, ``tensor_values`` its graph's. The inputs are unknown if a program lacks
these, or has them in another form. Source: ``torch/_export/serde/schema.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple, TypeAlias

from archive.formats.tensors.dtypes import SCALARS

Ranges: TypeAlias = "dict[str, tuple[int, int | None]]"
SYMBOL = re.compile(r"\b(?:Symbol\('(\w+)'(?:, \w+=\w+)*\)|Integer\((-?\d+)\))")
"""A part of a varying size, as PyTorch 2.13 writes it: ``Mul(Integer(2), Symbol('s77', integer=True))``."""
MOST_RANK = 64
"""Most dimensions of a tensor, as in PyTorch."""


class ProgramInput(NamedTuple):
    """An input of a program that its caller provides.

    Attributes:
        name: of the value in the graph; "" for one that isn't a tensor.
        dtype: of the tensor, ``float32``; "" where it isn't a tensor.
        sizes: of the tensor: numbers, or expressions for sizes that may vary.
        ranges: of these expressions, where known: the smallest value, and the largest if there is one.
    """

    name: str
    dtype: str
    sizes: tuple[int | str, ...]
    ranges: Ranges

    @property
    def most_elements(self) -> int | None:
        """The most elements that it may have; None if unknown."""
        most = [size if isinstance(size, int) else self.ranges.get(size, (0, None))[1] for size in self.sizes]
        known = [size for size in most if size is not None]
        return prod(known) if len(known) == len(most) else None

    @property
    def text(self) -> str:
        """The input in words: ``ids, int64 of shape (s0, 4), s0 from 2 to 5``."""
        if not self.dtype:
            return self.name or "a value"
        shape = f"({', '.join(map(str, self.sizes))}{',' if len(self.sizes) == 1 else ''})"
        symbols = [size for size in dict.fromkeys(self.sizes) if isinstance(size, str)]
        return f"{self.name}, {self.dtype} of shape {shape}" + "".join(map(self._range, symbols))

    def _range(self, symbol: str) -> str:
        """The values of a size in words; "" if unknown."""
        if symbol not in self.ranges:
            return ""
        least, most = self.ranges[symbol]
        return f", {symbol} from {least}" + ("" if most is None else f" to {most}")


def inputs_of(tree: object) -> tuple[ProgramInput, ...] | None:
    """The inputs of a program that its caller provides; None if its record has none in this form."""
    module = _in(tree, "graph_module")
    specs = _in(_in(module, "signature"), "input_specs")
    values = _in(_in(module, "graph"), "tensor_values")
    ranges = _ranges(_in(tree, "range_constraints"))
    if not isinstance(specs, list) or not isinstance(values, dict):
        return None
    found = list[ProgramInput]()
    for spec in specs:
        if not isinstance(spec, dict):
            return None
        if "user_input" in spec:
            made = _input(_in(_in(spec, "user_input"), "arg"), values, ranges)
            if made is None:
                return None
            found.append(made)
        elif "constant_input" in spec:  # the runtime takes these, too
            name = _in(_in(spec, "constant_input"), "name")
            found.append(ProgramInput(name if isinstance(name, str) else "", "", (), {}))
    return tuple(found)


LIFTED_SPECS = {
    "parameter": "parameter_name",
    "buffer": "buffer_name",
    "tensor_constant": "tensor_constant_name",
}
"""The inputs of a graph that its program holds, and the key of each one's name in the model."""


def weights_of(tree: object) -> dict[str, str]:
    """The tensors that a program's graph takes of the model: the value's name → the model's own."""
    specs = _in(_in(_in(tree, "graph_module"), "signature"), "input_specs")
    found = dict[str, str]()
    for spec in specs if isinstance(specs, list) else ():
        for kind, key in LIFTED_SPECS.items():
            held = _in(spec, kind)
            value, name = _in(_in(held, "arg"), "name"), _in(held, key)
            if isinstance(value, str) and isinstance(name, str):
                found[value] = name
    return found


def _input(argument: object, values: dict[str, object], ranges: Ranges) -> ProgramInput | None:
    name = _in(_in(argument, "as_tensor"), "name")
    if not isinstance(name, str):
        return ProgramInput("", "", (), {}) if isinstance(argument, dict) else None
    value = values.get(name)
    dtype, sizes = _in(value, "dtype"), _in(value, "sizes")
    if not isinstance(dtype, int) or not isinstance(sizes, list) or len(sizes) > MOST_RANK:
        return None
    made = tuple(_size(size) for size in sizes)
    if None in made:
        return None
    known = tuple(size for size in made if size is not None)
    return ProgramInput(name, SCALARS.get(dtype, ""), known, ranges)


def _size(value: object) -> int | str | None:
    number, expression = _in(value, "as_int"), _in(_in(value, "as_expr"), "expr_str")
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    return SYMBOL.sub(r"\1\2", expression) if isinstance(expression, str) else None


def _ranges(value: object) -> Ranges:
    if not isinstance(value, dict):
        return {}
    pairs = ((name, _in(bounds, "min_val"), _in(bounds, "max_val")) for name, bounds in value.items())
    return {
        name: (low, high if isinstance(high, int) else None)
        for name, low, high in pairs
        if isinstance(low, int)
    }


def _in(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
