"""Values of a graph: what their tables say of them must describe a tensor or a number.

PyTorch 2.13 makes each value that a graph names, without its elements, of its row in ``tensor_values``,
``sym_int_values``, ``sym_float_values`` or ``sym_bool_values``; it looks at no rows that no graph names.
Expressions are texts that PyTorch evaluates as Python; here the names in them alone are looked at.

Source: ``deserialize_tensor_meta`` and ``deserialize_sym_*`` in ``torch/_export/serde/serialize.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from archive.base.errors import shown
from archive.base.json_text import words
from archive.formats.exported.elements import ELEMENTS, Element
from archive.formats.exported.mismatches import JsonFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Ranges = Mapping[str, dict[str, Any]]

TABLES = ("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values", "custom_obj_values")
"""The tables of a graph, in the order in which PyTorch reads them: of rows with one name the last counts."""
NUMBERS = {
    "sym_int_values": ("as_int", int),
    "sym_float_values": ("as_float", float),
    "sym_bool_values": ("as_bool", bool),
}
"""For each table of numbers: the tag of one that is known, and its type."""
DEVICES = {
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla"),
    *("lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
}
"""The types of devices that PyTorch knows; whether a machine has one is not checked."""
DIMENSIONS = "must match dimensionality of strides"
WORDS = {"as_int": "an integer", "as_float": "a number", "as_bool": "true or false"}
LARGEST = (1 << 63) - 1
UNBACKED = ("zuf", "u")
"""How the names of symbols begin that no example has a value for; a number follows."""
TOKEN = re.compile(r"'(?P<symbol>[^'\\\n]*)'|(?P<name>[^\W\d]\w*)")
"""A symbol in an expression, or the name of something else."""
SYMBOL = re.compile(r"Symbol\('(?P<symbol>[^'\\\n]*)'(?:, [a-z]+=True)*\)")
"""An expression that is a symbol alone."""
FUNCTIONS = {
    *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Mod", "true", "false"),
    *("Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan"),
    *(
        "And",
        "Or",
        "Not",
        "ITE",
        "Piecewise",
        "floor",
        "ceiling",
        "Abs",
        "Half",
        "One",
        "Zero",
        "NegativeOne",
    ),
    *("FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv"),
    *("LShift", "RShift", "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat"),
    *("IsNonOverlappingAndDenseIndicator", "TruncToInt", "RoundToInt", "RoundDecimal", "ToFloat", "Identity"),
    *(
        "True",
        "False",
        "integer",
        "positive",
        "nonnegative",
        "real",
        "commutative",
        "precision",
        "S",
        "oo",
        "NegativeOne",
    ),
}
"""Names in the expressions that PyTorch writes."""


class RowCheck:
    """Compares rows with what PyTorch makes of them.

    Args:
        ranges: the program's ranges of symbols, by name.
    """

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._exemplified: set[str] = set()

    def faults(self, table: str, row: dict[str, Any], place: str) -> Iterator[JsonFault]:
        """The faults of a row.

        Args:
            table: its table.
            row: as the schema has it.
            place: its JSON path.
        """
        if table == "tensor_values":
            yield from self._tensor(row, place)
        elif table in NUMBERS:
            yield from self._number(row, place, *NUMBERS[table])

    def _tensor(self, meta: dict[str, Any], place: str) -> Iterator[JsonFault]:
        """The faults of a tensor without elements."""
        for key in ("sizes", "strides"):
            if not isinstance(meta[key], list) and meta[key] != "":
                yield JsonFault(f"{place}.{key}", f"expected a list, found {words(meta[key])}", "")
                return
            for number, one in enumerate(meta[key]):
                yield from self._number(one, f"{place}.{key}[{number}]", "as_int", int)
        yield from layout_faults(meta, place, typed=meta["requires_grad"] is not None)
        yield from device_faults(meta["device"], f"{place}.device")

    def _number(self, number: dict[str, Any], place: str, plain: str, kind: type) -> Iterator[JsonFault]:
        """The faults of a number, or of an expression in its place."""
        ((tag, value),) = number.items()
        place = f"{place}.{tag}"
        if tag != plain:
            yield from self._expression(value, place, plain)
        elif type(value) is not kind:
            problem = f"expected {WORDS[plain]}, found {words(value)}"
            yield JsonFault(place, problem, f"expected {kind.__name__}, got ")

    def _expression(self, expression: dict[str, Any], place: str, plain: str) -> Iterator[JsonFault]:
        text, hint = expression["expr_str"], expression.get("hint") or {}
        if hint and plain not in hint and plain != "as_bool":
            yield JsonFault(f"{place}.hint", f"expected {plain}, found {next(iter(hint))}", "")
        elif plain == "as_int" and hint and type(hint[plain]) is not int:
            problem = f"expected an integer, found {words(hint[plain])}"
            yield JsonFault(f"{place}.hint.{plain}", problem, "incompatible hint of type")
        elif not isinstance(text, str | int | float):
            yield JsonFault(f"{place}.expr_str", f"expected a text, found {words(text)}", "")
        else:
            yield from self._names(str(text), f"{place}.expr_str")
            alone = SYMBOL.fullmatch(str(text))
            if alone and plain in hint:
                yield from self._example(alone["symbol"], hint[plain], f"{place}.hint.{plain}")

    def _example(self, symbol: str, value: float, place: str) -> Iterator[JsonFault]:
        """The faults of a symbol's example, of which the first counts: it must be in the symbol's range."""
        first = symbol not in self._exemplified
        self._exemplified.add(symbol)
        if first and symbol in self._ranges:
            low, high = (self._ranges[symbol][key] for key in ("min_val", "max_val"))
            if (_is_number(low) and value < low) or (_is_number(high) and value > high):
                problem = f"expected a value in the range {low} to {high}, found {value}"
                yield JsonFault(place, problem, f"{value} not in VR[")

    def _names(self, text: str, place: str) -> Iterator[JsonFault]:
        """The faults of names in an expression: of symbols, and of functions."""
        tokens = list(TOKEN.finditer(text))
        other = next((one["name"] for one in tokens if one["name"] and one["name"] not in FUNCTIONS), None)
        if other is not None:
            problem = f"expected an expression as PyTorch writes it, which names no {shown(other)}"
            yield JsonFault(place, problem, None)
        for symbol in (one["symbol"] for one in tokens if one["symbol"]):
            if symbol not in self._ranges:
                problem = f"expected a range of the symbol {shown(symbol)}, found none"
                message = f"KeyError: {symbol[:60]}" if symbol.startswith(UNBACKED) else None
                yield JsonFault(place, problem, message)


def _is_number(bound: object) -> bool:
    return isinstance(bound, int | float)


def layout_faults(
    meta: dict[str, Any], place: str, message: str = DIMENSIONS, *, typed: bool = True
) -> Iterator[JsonFault]:
    """The faults of what all tensors have: elements, and as many strides as sizes.

    Args:
        meta: as the schema has it.
        place: its JSON path.
        message: what PyTorch says of another number of strides.
        typed: whether it must be true or false that the tensor requires a gradient.
    """
    element, gradients = element_of(meta), meta["requires_grad"]
    if element is None:
        problem = f"expected the number of a type of elements, found {shown(meta['dtype'])}"
        yield JsonFault(f"{place}.dtype", problem, "")
    elif typed and not isinstance(gradients, bool):
        problem = f"expected true or false, found {words(gradients)}"
        yield JsonFault(f"{place}.requires_grad", problem, "must be bool")
    elif gradients and not element.has_gradients:
        problem = f"expected false, as tensors of {element.name} have no gradients, found true"
        yield JsonFault(f"{place}.requires_grad", problem, "can require gradients")
    sizes, strides = meta["sizes"], meta["strides"]
    if len(sizes) != len(strides):
        problem = f"expected as many as sizes, {len(sizes)}, found {len(strides)}"
        yield JsonFault(f"{place}.strides", problem, message)
    for number, one in enumerate(sizes):
        size = one.get("as_int")
        if type(size) is int and not 0 <= size <= LARGEST:
            yield JsonFault(f"{place}.sizes[{number}].as_int", f"expected a size, found {size}", "")


def element_of(meta: dict[str, Any]) -> Element | None:
    """The type of a tensor's elements; None where PyTorch knows none of its number."""
    number = meta["dtype"]
    return ELEMENTS.get(number) if isinstance(number, int | float) else None  # type: ignore[arg-type]


def device_faults(device: dict[str, Any], place: str) -> Iterator[JsonFault]:
    """The faults of a device."""
    kind, index = device["type"], device.get("index")
    if not isinstance(kind, str) or kind.partition(":")[0] not in DEVICES:
        yield JsonFault(f"{place}.type", f"expected a type of devices, found {shown(kind)}", "")
    elif index is not None and (type(index) is not int or index < 0):
        yield JsonFault(f"{place}.index", f"expected a number or nothing, found {shown(index)}", "")
