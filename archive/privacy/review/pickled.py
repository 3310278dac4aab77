"""The roles of texts in a pickle: names that loading needs, keys of data, entries of tables.

Names are those of classes and functions, parts of storages' ids, attributes of objects, and keys of dicts
whose values are tensors or objects. In bytecode all texts are names but constants and default values. All
other texts are values. The pickle is read as inert values; if it cannot be read, all texts are values.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.formats.record_kinds import BYTECODE
from archive.pickles.machine import plain_value
from archive.pickles.ops import ValueKind
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from archive.pickles.values import DICTS, Global, Inert
from archive.privacy.pieces.pickle_strings import MOST_IN_ROW, is_pickle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.base.limits import Allowance

MOST_BYTES = 1 << 23
"""Bytes of a pickle that is read; texts of a larger one are values."""
STORAGE_ID = re.compile(r"[0-9]{1,20}(?:\.storage)?")
"""What names a storage: a count, or the address that it had."""
FEWEST_ENTRIES = 100
"""Entries of a table from texts to integers, such as a vocabulary."""
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
    """

    names: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    tables: list[Mapping[str, int]] = field(default_factory=list)
    numbers: set[str] = field(default_factory=set)


def roles_of_pickle(data: memoryview, allowance: Allowance) -> PickleRoles:
    """The roles of the texts of a pickle, and of those right after it."""
    roles, at = PickleRoles(), 0
    if len(data) > MOST_BYTES:
        return roles
    try:
        with allowance.part() as part:
            for _ in range(MOST_IN_ROW):
                value, at = plain_value(data, at, part)
                _walk(value, roles)
                if at >= len(data) or not is_pickle(bytes(data[at:])):
                    break
    except ArchiveError:  # broken, or too much: then the texts of the rest are values
        return roles
    return roles


def _walk(top: object, roles: PickleRoles) -> None:
    """Sort the texts of a value."""
    stack, seen = [top], set[int]()
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            roles.values.add(value)
        elif isinstance(value, Global):
            _add_global(value, roles)
        if not isinstance(value, Inert | list | tuple) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, list | tuple):
            stack += value
            continue
        if isinstance(value.what, Global | Inert):
            stack.append(value.what)
        if value.what == "persistent":
            _take_id(value.arguments, roles)
        else:
            stack += [*value.arguments, *value.items]
        if not _is_table(value, roles):
            _take_pairs(value, roles, stack)
        _take_state(value, roles, stack)


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
    for state in value.state if isinstance(value.state, tuple) else [value.state]:  # with the state of slots
        if isinstance(state, Inert) and state.what == "dict":
            roles.names.update(key for key, _ in state.pairs if isinstance(key, str))
            stack += [item for _, item in state.pairs]
            stack += [key for key, _ in state.pairs if not isinstance(key, str)]
        elif state is not None:
            stack.append(state)


def _is_table(value: Inert, roles: PickleRoles) -> bool:
    """Note a dict that is a table; whether it is one."""
    pairs = value.pairs
    if len(pairs) < FEWEST_ENTRIES or not all(
        isinstance(key, str) and type(number) is int for key, number in pairs
    ):
        return False
    roles.tables.append(dict(pairs))  # type: ignore[arg-type]
    return True


def constants_of_bytecode(data: memoryview, allowance: Allowance) -> set[str]:
    """The texts of bytecode that aren't names: constants, and defaults of arguments."""
    with allowance.part() as part:
        tree = read_trees([Pickle(BYTECODE, data)], [False], part)
        texts = tree.strings.copies()
        markers = [number for number, text in enumerate(texts) if text in CONSTANTS]
        is_text = tree.kinds(np.arange(len(tree.value))) == ValueKind.TEXT
        nodes = np.flatnonzero(is_text & np.isin(tree.value, markers))
        places = np.flatnonzero(np.isin(tree.children, nodes))
        behind = places[np.isin(places, tree.bounds)] + 1  # the second item of a tuple that begins so
        stack, seen = tree.children[behind[behind < len(tree.children)]].tolist(), set[int]()
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
