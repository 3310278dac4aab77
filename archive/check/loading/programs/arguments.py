"""Arguments of nodes: each name in them is a value that the graph has by then.

Source: ``deserialize_input`` in ``torch/_export/serde/serialize.py`` of PyTorch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from archive.base.errors import shown
from archive.base.json_text import words
from archive.check.loading.programs.values import device_faults
from archive.formats.exported.elements import ELEMENTS
from archive.formats.exported.mismatches import JsonFault, key_error, short

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Names = Collection[str] | None
    Faults = Iterator[JsonFault]

PLAIN = {"as_none", "as_int", "as_float", "as_bool", "as_string", "as_complex"}
"""Tags of values that are taken as they are."""
PLAIN_LISTS = {"as_ints", "as_floats", "as_bools", "as_strings", "as_int_lists", "as_float_lists"}
SYMBOLIC = {"as_sym_int", "as_sym_float", "as_sym_bool"}
ENUMS = {
    "as_scalar_type": ("a type of elements", ELEMENTS.keys()),
    "as_memory_format": ("a memory format", range(1, 5)),
    "as_layout": ("a layout", range(1, 8)),
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
        """The faults of an argument.

        Args:
            argument: as the schema has it.
            place: its JSON path.
        """
        ((tag, value),) = argument.items()
        place = f"{place}.{tag}"
        if tag in PLAIN:
            return
        if tag in ENUMS:
            yield from _enum_faults(tag, value, place)
        elif tag in self._ONE:
            yield from self._ONE[tag](self, value, place)
        elif tag == "as_string_to_argument":
            for key, inner in value.items():
                yield from self.faults(inner, f"{place}.{short(key)}")
        elif not isinstance(value, list):
            yield JsonFault(place, f"expected a list, found {words(value)}", UNHANDLED)
        elif tag not in PLAIN_LISTS:
            for number, one in enumerate(value):
                yield from self._EACH[tag](self, one, f"{place}[{number}]")

    def name_faults(self, name: object, place: str, expected: str = THERE) -> Faults:
        """The faults of a name of a value."""
        if not isinstance(name, str) or name not in self._values:
            yield missing(name, place, expected)

    def _tensor(self, value: dict[str, Any], place: str) -> Faults:
        yield from self.name_faults(value["name"], f"{place}.name")

    def _tensors(self, values: list[dict[str, Any]], place: str) -> Faults:
        for number, one in enumerate(values):
            yield from self._tensor(one, f"{place}[{number}]")

    def _optional(self, value: dict[str, Any], place: str) -> Faults:
        if "as_tensor" in value:
            yield from self._tensor(value["as_tensor"], f"{place}.as_tensor")

    def _symbolic(self, value: dict[str, Any], place: str) -> Faults:
        if "as_name" in value:
            yield from self.name_faults(value["as_name"], f"{place}.as_name")

    def _object(self, value: dict[str, Any], place: str) -> Faults:
        name = value["name"]
        if self._constants is None or (isinstance(name, str) and name in self._constants):
            return
        yield from self.name_faults(name, f"{place}.name", f"{THERE}, or a constant")

    def _held(self, value: dict[str, Any], place: str) -> Faults:
        if self._graph is None:
            yield JsonFault(place, "expected no graph, found one", "")
        else:
            yield from self._graph(value, place)

    def _operator(self, value: object, place: str) -> Faults:
        if not isinstance(value, str):
            yield JsonFault(place, f"expected a text, found {words(value)}", "has no attribute 'startswith'")

    def _device(self, value: dict[str, Any], place: str) -> Faults:
        yield from device_faults(value, place)

    def _unhandled(self, _: object, place: str) -> Faults:
        yield JsonFault(place, "expected an argument of another kind", UNHANDLED)

    _ONE: ClassVar[dict[str, Callable[[Arguments, Any, str], Faults]]] = {
        "as_tensor": _tensor,
        "as_sym_int": _symbolic,
        "as_sym_float": _symbolic,
        "as_sym_bool": _symbolic,
        "as_custom_obj": _object,
        "as_graph": _held,
        "as_operator": _operator,
        "as_device": _device,
        "as_optional_tensor": _unhandled,
    }
    _EACH: ClassVar[dict[str, Callable[[Arguments, Any, str], Faults]]] = {
        "as_tensors": _tensor,
        "as_nested_tensors": _tensors,
        "as_optional_tensors": _optional,
        "as_sym_ints": _symbolic,
        "as_sym_floats": _symbolic,
        "as_sym_bools": _symbolic,
    }


def missing(name: object, place: str, expected: str) -> JsonFault:
    """The fault of a name that nothing has."""
    return JsonFault(place, f"expected {expected}, found {shown(name)}", key_error(name))


def _enum_faults(tag: str, value: object, place: str) -> Faults:
    expected, numbers = ENUMS[tag]
    if not isinstance(value, int | float) or value not in numbers:
        yield JsonFault(place, f"expected the number of {expected}, found {shown(value)}", "")
