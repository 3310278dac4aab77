"""The roles of texts in a pickle: names that loading needs, keys of data, entries of tables.

Names are those of classes and functions, parts of storages' ids, attributes of objects, and keys of dicts
whose values are tensors or objects. In bytecode all texts are names but constants and default values. All
other texts are values, and so are those that are no strings: numbers, letters in a row (``spelled``), dates.
The pickle is read as inert values; if it cannot be read, all texts are values.
"""

from __future__ import annotations

import pickletools
import re
from collections import Counter
from contextlib import suppress
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.formats.record_kinds import BYTECODE
from archive.pickles.machine import plain_value
from archive.pickles.ops import ValueKind
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from archive.pickles.values import DICTS, Global, Inert, bytes_of
from archive.privacy.pieces.pickle_strings import MOST_IN_ROW, MOST_OPCODES, is_pickle
from archive.privacy.review.numbers import texts_of_numbers
from archive.privacy.review.spelled import (
    FEWEST_KEYS,
    identifying_keys,
    may_be_date,
    may_identify,
    spelled,
    whole_number,
)
from archive.privacy.review.tables import FEWEST_MERGES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


MOST_BYTES = 1 << 23
"""Bytes of a pickle that is read; texts of a larger one are values."""
STORAGE_ID = re.compile(r"[0-9]{1,20}(?:\.storage)?")
"""What names a storage: a count, or the address that it had."""
FEWEST_ENTRIES = 100
"""Entries of a table from texts to integers, such as a vocabulary."""
PAIR = 2
CONSTANTS = {b"constants", b"default_value"}
"""What texts of bytecode follow that aren't names."""


@dataclass(slots=True)
class PickleRoles:
    """Texts of a pickle by their roles; all others are values.

    Attributes:
        names: names that loading needs.
        keys: keys of data.
        values: texts that are also values.
        tables: tables from texts to integers.
        numbers: numbers of storages, which PyTorch makes.
        spelled: role and text of what isn't a string, and how often it is there.
        arrays: bytes of NumPy's numbers, as texts.
        pairs: pairs of texts that a tokenizer merges, perhaps; their texts aren't among the others.
    """

    names: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    tables: list[Mapping[str, int]] = field(default_factory=list)
    numbers: set[str] = field(default_factory=set)
    spelled: Counter[tuple[str, str]] = field(default_factory=Counter)
    arrays: set[str] = field(default_factory=set)
    pairs: list[tuple[str, str]] = field(default_factory=list)


def roles_of_pickle(data: memoryview) -> PickleRoles:
    """The roles of the texts of a pickle, and of those right after it."""
    roles, at = PickleRoles(), 0
    if len(data) > MOST_BYTES:
        _take_numbers(data, roles)
        return roles
    try:
        with memory.part():
            for _ in range(MOST_IN_ROW):
                value, at = plain_value(data, at)
                _walk(value, roles)
                if at >= len(data) or not is_pickle(bytes(data[at:])):
                    break
    except ArchiveError:  # broken, or too much: then the texts of the rest are values
        _take_numbers(data[at:], roles)
    return roles


def _take_numbers(data: memoryview, roles: PickleRoles) -> None:
    """Take the numbers of a pickle that isn't read as values."""
    with suppress(ValueError, OverflowError, UnicodeError):  # no pickle from there on
        for _, value, _ in islice(pickletools.genops(bytes(data)), MOST_OPCODES):
            if (
                type(value) is not str
                and (number := whole_number(value)) is not None
                and may_identify(number)
            ):
                roles.spelled["value", str(number)] += 1


def _walk(top: object, roles: PickleRoles) -> None:
    """Sort the texts of a value."""
    stack, seen, forms = [top], set[int](), set[int]()
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            roles.values.add(value)
        elif isinstance(value, Global):
            _add_global(value, roles)
        if not isinstance(value, Inert | list | tuple) or id(value) in seen:
            continue
        seen.add(id(value))
        is_form = _is_form(value, forms)
        if isinstance(value, list | tuple):
            if not is_form:
                _spell(Inert("items", items=value), roles)
            if not _are_pairs(value, roles):
                stack += value
            continue
        if isinstance(value.what, Global | Inert):
            stack.append(value.what)
        if not is_form:
            _spell(value, roles)
        if value.what == "persistent":
            _take_id(value.arguments, roles)
        elif not _are_pairs(value.items, roles):
            stack += [*value.arguments, *value.items]
        if _are_pairs([key for key, _ in value.pairs], roles):
            continue
        if not _is_table(value, roles):
            _take_pairs(value, roles, stack)
        _take_state(value, roles, stack)


TIMES = "Mm"
"""NumPy's letters for dates and durations, whose unit is in the state of the type."""
REBUILDERS = ("torch._utils", "torch._tensor")
"""Modules of what makes a tensor of its storage, offset, sizes and strides."""
TYPE_OF_NUMBERS, MOST_NUMBERS = re.compile(r"[<>|=]?[biufcMm]\d{1,2}"), 1 << 16
"""A type of NumPy's numbers, and those of an array that are looked at one by one."""
OF_DATE, MONTH = 4, 0x7F
"""Bytes of a date, and the bits of its month; the first one says which of two equal hours is meant."""


def _is_form(value: Inert | Sequence[object], forms: set[int]) -> bool:
    """Whether a value says where a tensor lies and which form it has; then so do the tuples in it."""
    if isinstance(value, Inert):
        parts: Sequence[object] = [*value.arguments, *value.items]
        is_made = value.what == "persistent" or getattr(value.what, "module", "") in REBUILDERS
    else:
        parts, is_made = value, False
    if not is_made and id(value) not in forms:
        return False
    forms.update(id(part) for part in parts if isinstance(part, Inert | list | tuple))
    return True


def _spell(value: Inert, roles: PickleRoles) -> None:
    """Take the texts of a value that are no strings."""
    keys, items = [key for key, _ in value.pairs], [item for _, item in value.pairs]
    for values in (value.arguments, _letters(value.items), _letters(items)):
        roles.spelled.update(("value", text) for text in spelled(values))
    roles.spelled.update(("key", text) for text in spelled(keys, FEWEST_KEYS))
    for one in (*value.arguments, *value.items, *items, value.state, *_numbers_of_numpy(value, roles)):
        if (number := whole_number(one)) is not None and (may_identify(number) or may_be_date(number)):
            roles.spelled["value", str(number)] += 1
    numbers = [number for key in keys if (number := whole_number(key)) is not None]
    roles.spelled.update(("key", str(number)) for number in identifying_keys(numbers))
    if (date := _date(value)) is not None:
        roles.spelled["value", date] += 1


def _letters(values: Sequence[object]) -> Sequence[object]:
    """Values, in their place the one letter that each has in it; without those that have nothing."""
    return [_letter(value) for value in values if value is not None and value != ""]


def _letter(value: object) -> object:
    if isinstance(value, list | tuple) and len(value) <= FEWEST_KEYS:
        some = [one for one in value if isinstance(one, str)] or value
        return some[0] if len(some) == 1 else value
    data = bytes_of(value)
    return data.decode("latin-1") if isinstance(data, bytes) and len(data) == 1 else value


def _numbers_of_numpy(value: Inert, roles: PickleRoles) -> Sequence[object]:
    """The numbers that NumPy writes as bytes, after or before their type; those of texts are none."""
    near = [*value.arguments, *value.items]
    kinds = [kind for one in near if (kind := _type_of_numbers(one))]
    found: list[object] = []
    for one in near if len(kinds) == 1 else ():
        data = bytes_of(one)
        if not isinstance(data, bytes | bytearray):
            continue
        with suppress(TypeError, ValueError):
            numbers = np.frombuffer(data, kinds[0])
            roles.arrays.add(_as_text(one, data))
            texts = texts_of_numbers(memoryview(data))
            roles.spelled.update(("value", text) for text in texts if any(map(str.isalpha, text)))
            if numbers.dtype.kind in TIMES:
                times = numbers[:MOST_NUMBERS].view("<i8").tolist()
                roles.spelled.update(("value", f"{numbers.dtype.name} {time}") for time in times)
                continue
            found += numbers[:MOST_NUMBERS].tolist()
    return found


def _type_of_numbers(value: object) -> str:
    """NumPy's name of a type of numbers; "" of anything else."""
    match value:
        case Inert(what=Global(name="dtype"), arguments=[str(kind), *_]) if TYPE_OF_NUMBERS.fullmatch(kind):
            return kind
    return ""


def _as_text(value: object, data: bytes | bytearray) -> str:
    """Bytes as a reader of strings has them: protocols before 3 write them as a text."""
    if isinstance(value, Inert):
        return str(value.arguments[0])
    return data.decode("utf-8", "backslashreplace")


def _date(value: Inert) -> str | None:
    """The day that ``datetime`` writes as bytes: two of the year, the month, the day."""
    match value:
        case Inert(what=Global(module="datetime", name="date" | "datetime"), arguments=[packed, *_]):
            data = bytes_of(packed)
            if isinstance(data, bytes) and len(data) >= OF_DATE:
                return f"{int.from_bytes(data[:2]):04}-{data[2] & MONTH:02}-{data[3]:02}"
    return None


def _take_pairs(value: Inert, roles: PickleRoles, stack: list[object]) -> None:
    for key, item in value.pairs:
        stack.append(item)
        if not isinstance(key, str):
            stack.append(key)
        elif isinstance(item, Inert) and isinstance(item.what, Global) and item.what not in DICTS:
            roles.names.add(key)
        else:
            roles.keys.add(key)


def _take_state(value: Inert, roles: PickleRoles, stack: list[object]) -> None:
    """Take the attributes of an object, or any other state."""
    states = [value.state]
    if isinstance(value.state, tuple):  # with the state of slots
        states = list(value.state)
        _spell(Inert("items", items=states), roles)
    for state in states:
        if isinstance(state, Inert) and state.what == "dict":
            _spell(state, roles)
            roles.names.update(key for key, _ in state.pairs if isinstance(key, str))
            stack += [item for _, item in state.pairs]
            stack += [key for key, _ in state.pairs if not isinstance(key, str)]
        elif state is not None:
            stack.append(state)


def _are_pairs(values: Sequence[object], roles: PickleRoles) -> bool:
    """Note many pairs of texts, which are items or keys; whether values are such."""
    if len(values) < FEWEST_MERGES:
        return False
    pairs = [tuple(one) for one in values if isinstance(one, list | tuple)]
    if len(pairs) < len(values) or any(len(pair) != PAIR for pair in pairs):
        return False
    if not all(isinstance(text, str) for pair in pairs for text in pair):
        return False
    roles.pairs += pairs
    return True


def _is_table(value: Inert, roles: PickleRoles) -> bool:
    """Note a dict that is a table; whether it is one."""
    pairs = value.pairs
    if len(pairs) < FEWEST_ENTRIES or not all(
        isinstance(key, str) and type(number) is int for key, number in pairs
    ):
        return False
    roles.tables.append(dict(pairs))  # type: ignore[arg-type]
    return True


def constants_of_bytecode(data: memoryview) -> set[str]:
    """The texts of bytecode that aren't names: constants, and defaults of arguments."""
    with memory.part():
        tree = read_trees([Pickle(BYTECODE, data)], [False])
        texts = tree.strings.copies()
        markers = [number for number, text in enumerate(texts) if text in CONSTANTS]
        is_text = tree.are(np.arange(len(tree.value)), ValueKind.TEXT)
        nodes = np.flatnonzero(is_text & np.isin(tree.value, markers))
        places = np.flatnonzero(np.isin(tree.children, nodes))
        second = places[np.isin(places, tree.bounds)] + 1  # the second item of a tuple that begins so
        stack, seen = tree.children[second[second < len(tree.children)]].tolist(), set[int]()
        found = set[str]()
        while stack:
            node = stack.pop()
            if is_text[node]:
                found.add(texts[tree.value[node]].decode("utf-8", "backslashreplace"))
            elif node not in seen:
                seen.add(node)
                stack += tree.items(node)
                stack += [tree.states[node]] if node in tree.states else []
        return found


def _add_global(name: Global, roles: PickleRoles) -> None:
    roles.names.update((name.module, name.name, f"{name.module}.{name.name}"))


def _take_id(arguments: Sequence[object], roles: PickleRoles) -> None:
    """Take the parts of a storage's id, which are a tuple or several."""
    stack = list(arguments)
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            (roles.numbers if STORAGE_ID.fullmatch(value) else roles.names).add(value)
        elif isinstance(value, Global):
            _add_global(value, roles)
        elif isinstance(value, tuple):
            stack += value
