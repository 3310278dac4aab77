"""Values of a graph, and arguments that refer to them.

What tables say of values must describe a tensor or a number.

PyTorch 2.13 makes each value that a graph names, without its elements, of its row in ``tensor_values``,
``sym_int_values``, ``sym_float_values`` or ``sym_bool_values``; it looks at no rows that no graph names.
Expressions are texts that PyTorch evaluates as Python; only the names in them are looked at here.

Each name in an argument of a node is a value that the graph has by then.

Source: ``deserialize_tensor_meta``, ``deserialize_sym_*`` and ``deserialize_input`` in
``torch/_export/serde/serialize.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from archive.base.diagnostics import Diagnostic, wrong
from archive.base.errors import shown
from archive.base.json_text import words
from archive.formats.exported.printed import NUMBERED
from archive.formats.exported.schema import key_error
from archive.formats.schema.json import short
from archive.formats.tensors.dtypes import SCALARS, may_have_gradients

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    Faults = Iterator[Diagnostic]
    Names = Collection[str] | None

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
"""An expression that is only a symbol."""
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

    def __init__(self, ranges: Mapping[str, dict[str, Any]]) -> None:
        self._ranges = ranges
        self._exemplified: set[str] = set()

    def faults(self, table: str, row: dict[str, Any], place: str) -> Iterator[Diagnostic]:
        """The faults of a row."""
        if table == "tensor_values":
            yield from self._tensor(row, place)
        elif table in NUMBERS:
            yield from self._number(row, place, *NUMBERS[table])

    def _tensor(self, meta: dict[str, Any], place: str) -> Iterator[Diagnostic]:
        """The faults of a tensor without elements."""
        for key in ("sizes", "strides"):
            if not isinstance(meta[key], list) and meta[key] != "":
                yield wrong(f"{place}.{key}", f"expected a list, found {words(meta[key])}", "")
                return
            for number, length in enumerate(meta[key]):
                yield from self._number(length, f"{place}.{key}[{number}]", "as_int", int)
        yield from layout_faults(meta, place, typed=meta["requires_grad"] is not None)
        yield from device_faults(meta["device"], f"{place}.device")

    def _number(self, number: dict[str, Any], place: str, plain: str, kind: type) -> Iterator[Diagnostic]:
        """The faults of a number, or of an expression in its place."""
        ((tag, value),) = number.items()
        place = f"{place}.{tag}"
        if tag != plain:
            yield from self._expression(value, place, plain)
        elif type(value) is not kind:
            problem = f"expected {WORDS[plain]}, found {words(value)}"
            yield wrong(place, problem, f"expected {kind.__name__}, got ")

    def _expression(self, expression: dict[str, Any], place: str, plain: str) -> Iterator[Diagnostic]:
        text, hint = expression["expr_str"], expression.get("hint") or {}
        if hint and plain not in hint and plain != "as_bool":
            yield wrong(f"{place}.hint", f"expected {plain}, found {next(iter(hint))}", "")
        elif plain == "as_int" and hint and type(hint[plain]) is not int:
            problem = f"expected an integer, found {words(hint[plain])}"
            yield wrong(f"{place}.hint.{plain}", problem, "incompatible hint of type")
        elif not isinstance(text, str | int | float):
            yield wrong(f"{place}.expr_str", f"expected a text, found {words(text)}", "")
        else:
            tokens = list(TOKEN.finditer(str(text)))
            names = [token["name"] for token in tokens if token["name"]]
            other = next((name for name in names if name not in FUNCTIONS), None)
            if other is not None:
                problem = f"expected an expression as PyTorch writes it, which names no {shown(other)}"
                yield wrong(f"{place}.expr_str", problem, None)
            for symbol in (token["symbol"] for token in tokens if token["symbol"]):
                if symbol not in self._ranges:
                    problem = f"expected a range of the symbol {shown(symbol)}, found none"
                    message = f"KeyError: {symbol[:60]}" if symbol.startswith(UNBACKED) else None
                    yield wrong(f"{place}.expr_str", problem, message)
            only = SYMBOL.fullmatch(str(text))
            if only and plain in hint:
                # The first example of a symbol counts: it must be in the symbol's range.
                symbol, value = only["symbol"], hint[plain]
                first = symbol not in self._exemplified
                self._exemplified.add(symbol)
                if first and symbol in self._ranges:
                    low, high = (self._ranges[symbol][key] for key in ("min_val", "max_val"))
                    if (_is_number(low) and value < low) or (_is_number(high) and value > high):
                        problem = f"expected a value in the range {low} to {high}, found {value}"
                        yield wrong(f"{place}.hint.{plain}", problem, f"{value} not in VR[")


def _is_number(bound: object) -> bool:
    return isinstance(bound, int | float)


def layout_faults(
    meta: dict[str, Any], place: str, message: str = DIMENSIONS, *, typed: bool
) -> Iterator[Diagnostic]:
    """The faults of what all tensors have: elements, and as many strides as sizes.

    Args:
        message: what PyTorch says of another number of strides.
        typed: whether it must be true or false that the tensor requires a gradient.
    """
    element, gradients = element_of(meta), meta["requires_grad"]
    if element is None:
        problem = f"expected the number of a type of elements, found {shown(meta['dtype'])}"
        yield wrong(f"{place}.dtype", problem, "")
    elif typed and not isinstance(gradients, bool):
        problem = f"expected true or false, found {words(gradients)}"
        yield wrong(f"{place}.requires_grad", problem, "must be bool")
    elif gradients and not may_have_gradients(element):
        problem = f"expected false, as tensors of {element} have no gradients, found true"
        yield wrong(f"{place}.requires_grad", problem, "can require gradients")
    sizes, strides = meta["sizes"], meta["strides"]
    if len(sizes) != len(strides):
        problem = f"expected as many as sizes, {len(sizes)}, found {len(strides)}"
        yield wrong(f"{place}.strides", problem, message)
    for number, length in enumerate(sizes):
        size = length.get("as_int")
        if type(size) is int and not 0 <= size <= LARGEST:
            yield wrong(f"{place}.sizes[{number}].as_int", f"expected a size, found {size}", "")


def element_of(meta: dict[str, Any]) -> str | None:
    """The dtype of a tensor; None where PyTorch knows none of its number."""
    number = meta["dtype"]
    return SCALARS.get(number) if isinstance(number, int | float) else None  # type: ignore[arg-type]


def device_faults(device: dict[str, Any], place: str) -> Iterator[Diagnostic]:
    """The faults of a device."""
    kind, index = device["type"], device.get("index")
    if not isinstance(kind, str) or kind.partition(":")[0] not in DEVICES:
        yield wrong(f"{place}.type", f"expected a type of devices, found {shown(kind)}", "")
    elif index is not None and (type(index) is not int or index < 0):
        yield wrong(f"{place}.index", f"expected a number or nothing, found {shown(index)}", "")


# --- arguments

PLAIN = {"as_none", "as_int", "as_float", "as_bool", "as_string", "as_complex"}
"""Tags of values that are taken as they are."""
PLAIN_LISTS = {"as_ints", "as_floats", "as_bools", "as_strings", "as_int_lists", "as_float_lists"}
SYMBOLIC = {"as_sym_int", "as_sym_float", "as_sym_bool"}
ENUMS = {
    "as_scalar_type": ("a type of elements", NUMBERED["as_scalar_type"]),
    "as_memory_format": ("a memory format", NUMBERED["as_memory_format"]),
    "as_layout": ("a layout", NUMBERED["as_layout"]),
}
"""For each tag of a number with a name: what it stands for, and the numbers that there are."""
UNHANDLED = "Unhandled argument"
THERE = "a value that is there by then"


class Arguments:
    """The arguments of nodes, compared with the values that there are.

    Args:
        values: the names of the values so far; the graph adds to them.
        constants: the names of constants; None where they are not known.
        graph: gives the faults of a graph that is an argument; None where none may be.
    """

    def __init__(
        self,
        values: Collection[str],
        constants: Names,
        graph: Callable[[dict[str, Any], str], Faults] | None = None,
    ) -> None:
        self._values = values
        self._constants = constants
        self._graph = graph

    def faults(self, argument: dict[str, Any], place: str) -> Faults:
        """The faults of an argument."""
        ((tag, value),) = argument.items()
        place = f"{place}.{tag}"
        if tag in ENUMS:
            expected, numbers = ENUMS[tag]
            if not isinstance(value, int | float) or value not in numbers:
                yield wrong(place, f"expected the number of {expected}, found {shown(value)}", "")
        elif tag == "as_tensor":
            yield from self._named(value["name"], f"{place}.name")
        elif tag in SYMBOLIC:
            yield from self._symbolic(value, place)
        elif tag == "as_custom_obj":
            name = value["name"]
            is_constant = isinstance(name, str) and self._constants is not None and name in self._constants
            if self._constants is not None and not is_constant:
                yield from self._named(name, f"{place}.name", f"{THERE}, or a constant")
        elif tag == "as_graph":
            if self._graph is None:
                yield wrong(place, "expected no graph, found one", "")
            else:
                yield from self._graph(value, place)
        elif tag == "as_operator":
            if not isinstance(value, str):
                yield wrong(place, f"expected a text, found {words(value)}", "has no attribute 'startswith'")
        elif tag == "as_device":
            yield from device_faults(value, place)
        elif tag == "as_optional_tensor":
            yield wrong(place, "expected an argument of another kind", UNHANDLED)
        elif tag == "as_string_to_argument":
            for key, inner in value.items():
                yield from self.faults(inner, f"{place}.{short(key)}")
        elif tag not in PLAIN and not isinstance(value, list):
            yield wrong(place, f"expected a list, found {words(value)}", UNHANDLED)
        elif tag not in PLAIN | PLAIN_LISTS:
            for number, item in enumerate(value):
                yield from self._item(tag, item, f"{place}[{number}]")

    def _item(self, tag: str, item: Any, place: str) -> Faults:  # noqa: ANN401 (of the schema)
        """The faults of an item of a list of tensors or numbers."""
        if tag == "as_tensors":
            yield from self._named(item["name"], f"{place}.name")
        elif tag == "as_nested_tensors":
            for number, inner in enumerate(item):
                yield from self._named(inner["name"], f"{place}[{number}].name")
        elif tag == "as_optional_tensors":
            if "as_tensor" in item:
                yield from self._named(item["as_tensor"]["name"], f"{place}.as_tensor.name")
        else:
            yield from self._symbolic(item, place)

    def _symbolic(self, value: dict[str, Any], place: str) -> Faults:
        if "as_name" in value:
            yield from self._named(value["as_name"], f"{place}.as_name")

    def _named(self, name: object, place: str, expected: str = THERE) -> Faults:
        if not isinstance(name, str) or name not in self._values:
            yield missing(name, place, expected)


def missing(name: object, place: str, expected: str) -> Diagnostic:
    """The fault of a name that nothing has."""
    return wrong(place, f"expected {expected}, found {shown(name)}", key_error(name))
