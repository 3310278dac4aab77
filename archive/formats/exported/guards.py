"""The conditions on its inputs that PyTorch checks in each call of a program's module.

It makes them when the program is loaded, of what ``tensor_values`` and ``range_constraints`` say, for the
inputs in their order; the conditions of ``guards_code``, which tracing found, follow. It prints the first one
that fails::

    Guard failed: cov.size()[0] == 8                  a size that is a number
    Guard failed: ids.size()[0] <= 64                 a bound of a size that varies
    Guard failed: heard.size()[0] == ids.size()[0]    two sizes that are the same symbol

An input within a container is printed with its path, ``pair['left']``, and its value in the graph is named
after that: ``pair_left``, perhaps with a number to be unique. ``guards_code`` has ``L['ids']`` for ``ids``,
or ``L['flat_args'][0]`` by number.

Source: ``_get_input_guards_for_graph`` in ``torch/export/_unlift.py`` and ``placeholder_naming_pass`` in
``torch/_export/utils.py``, PyTorch 2.13.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from archive.formats.exported.inputs import ProgramInput

PATH = r"(?<![\w.'])[A-Za-z_]\w*(?:\['[^']*'\]|\[\d{1,6}\]|\.(?!\w+\()\w+)*"
SIZE = re.compile(rf"(?P<path>{PATH})\.size\(\)\[(?P<at>\d{{1,2}})\]")
COMPARED = re.compile(
    rf"{SIZE.pattern} (?P<sign>==|>=|<=) (?:(?P<number>\d{{1,18}})|{PATH}\.size\(\)\[\d+\])"
)
KEY = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")
WORD = re.compile(PATH + r"(?!\()")
FLAT, LOCAL = re.compile(r"L\['flat_args'\]\[(\d{1,6})\]"), re.compile(r"L\['(\w+)'\]")
NOT_CONDITION = re.compile(r"[\s()]")
"""Blanks and brackets, which PyTorch prints anew."""


class Size(NamedTuple):
    """A size that a condition names.

    Attributes:
        value: a number, or an expression.
    """

    given: ProgramInput
    value: int | str


class Guard(NamedTuple):
    """A condition, as a program may have it.

    Attributes:
        inputs: those that it is about.
        why: why the program has no such condition, in words; "" where it has it, or may.
    """

    inputs: tuple[ProgramInput, ...]
    why: str = ""


def guard_of(condition: str, inputs: Sequence[ProgramInput], recorded: Iterable[str]) -> Guard:
    """A condition, as PyTorch prints it, as one of a program.

    Args:
        inputs: the program's.
        recorded: its ``guards_code``.
    """
    sizes = list[Size]()
    for found in SIZE.finditer(condition):
        size = _size(found["path"], int(found["at"]), inputs)
        if size is None:
            return Guard((), "the program has no input with such a size")
        sizes.append(size)
    if not sizes:
        return _of_values(condition, inputs)
    named = tuple({size.given.name: size.given for size in sizes}.values())
    own = {_normal(FLAT.sub(lambda flat: _flat(int(flat[1]), inputs), guard)) for guard in recorded}
    has_it = _normal(condition) in own or _is_made_of(condition, sizes)
    return Guard(named, "" if has_it else "the program has no such condition")


def guard_at(inputs: Sequence[ProgramInput], name: str, at: int | None, sign: str, size: str) -> Guard:
    """A condition on one of some inputs, as one of a program.

    Args:
        name: the input's; "" where any may be meant.
        at: the dimension; None for the value of an input that isn't a tensor.
        sign: ``equal to``, ``>=`` or ``<=``.
        size: as printed.
    """
    named = [given for given in inputs if not name or _is_any(given.name, [_name(name)])]
    found = tuple(given for given in named if _may_be(given, at, sign, size))
    return Guard(found, "" if found else "the program has no input of that size there")


def _may_be(given: ProgramInput, at: int | None, sign: str, size: str) -> bool:
    """Whether an input is of a size or, without a dimension, may be of a value."""
    if at is None or not given.dtype:
        return at is None and not given.dtype
    if at >= len(given.sizes):
        return False
    value = given.sizes[at]
    if isinstance(value, int) or sign == "equal to":
        return sign == "equal to" and (isinstance(value, str) or str(value) == size)
    return value not in given.ranges or str(given.ranges[value][sign == "<="]) == size


def _of_values(condition: str, inputs: Sequence[ProgramInput]) -> Guard:
    """A condition that names no sizes: it is of inputs that aren't tensors, not all of which have names."""
    words = [*map(_name, WORD.findall(condition))]
    named = tuple(given for given in inputs if not given.dtype and _is_any(given.name, words))
    return Guard(named, "" if named else "the program has no such input")


def _is_made_of(condition: str, sizes: Sequence[Size]) -> bool:
    """Whether PyTorch makes the condition of its sizes, or may, where one is no number or single symbol."""
    if any(isinstance(size.value, str) and size.value not in size.given.ranges for size in sizes):
        return True
    compared = COMPARED.fullmatch(condition)
    if compared is None:
        return False
    (given, value), sign = sizes[0], compared["sign"]
    if compared["number"] is None:
        return sign == "==" and isinstance(value, str) and value == sizes[1].value
    number = int(compared["number"])
    if isinstance(value, int):
        return sign == "==" and value == number
    return sign != "==" and given.ranges[value][sign == "<="] == number


def _size(path: str, at: int, inputs: Sequence[ProgramInput]) -> Size | None:
    """The size of a dimension of a tensor; None where no input has one."""
    found = [given for given in inputs if given.dtype and _is_any(given.name, [_name(path)])]
    found = [given for given in found if given.name == _name(path)] or found
    return next((Size(given, given.sizes[at]) for given in found if at < len(given.sizes)), None)


def _name(path: str) -> str:
    """The name of the value that a path stands for, without a number that makes it unique."""
    keys = KEY.sub(lambda key: "_" + re.sub(r"[^a-zA-Z0-9]", "_", key[1] or key[2] or key[3]), path)
    return keys.lower()


def _is_any(name: str, names: Iterable[str]) -> bool:
    """Whether a value may have one of some names; one without a name may have any."""
    return not name or any(re.fullmatch(re.escape(one) + r"(?:_\d+)?", name) for one in names)


def _flat(number: int, inputs: Sequence[ProgramInput]) -> str:
    return inputs[number].name if number < len(inputs) else ""


def _normal(condition: str) -> str:
    """A condition whose inputs have the names of their values, without blanks and brackets."""
    local = LOCAL.sub(r"\1", condition)
    return NOT_CONDITION.sub("", SIZE.sub(lambda size: f"{_name(size['path'])}.size()[{size['at']}]", local))
