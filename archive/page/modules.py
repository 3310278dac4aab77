"""The modules of a file as a tree in columns: those of TorchScript's module tree, or those that nodes name.

A module's tensors are those whose names begin with its path; parameters and bytes are of all below it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base.limits import Steps
from archive.debuginfo.model import Global, Inert
from archive.describe.sizes.account import steps_of
from archive.formats.record_kinds import label_in, module_of
from archive.page.units import plain
from archive.reader.recognition import ARCHIVE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.describe.sizes import Account
    from archive.page.sources import ArchiveSources
    from archive.reader.archive import Archive

MODULE_BYTES = 600
"""Bytes of memory that a module costs."""
MOST_STEPS = 1 << 24
"""Steps in which the values of a module tree are looked through."""
CLASS_OR_METHOD = re.compile(rb"^(?:class (?P<class>\w+)\(|  def (?P<method>\w+)\()", re.MULTILINE)

Methods = dict[str, list[list[Any]]]


class _Rows:
    """The rows of the table, each path once, behind what it is in."""

    def __init__(self, separator: str = ".") -> None:
        self.paths: list[str] = []
        self.parents: list[int] = []
        self.classes: list[str] = []
        self.rows: dict[str, int] = {}
        self._separator = separator

    def row(self, path: str) -> int:
        """The row of a module, and of all that it is in."""
        missing = []
        while path not in self.rows:
            missing.append(path)
            if not path:
                break
            path = path.rpartition(self._separator)[0]
        for one in reversed(missing):
            self.rows[one] = len(self.paths)
            self.parents.append(self.rows[one.rpartition(self._separator)[0]] if one else -1)
            self.paths.append(one)
            self.classes.append("")
        return self.rows[missing[0] if missing else path]


def modules_facts(opened: Archive, account: Account, sources: ArchiveSources | None) -> dict[str, Any] | None:
    """The columns of the modules; None where the file names none.

    Args:
        opened: the archive.
        account: of its bytes.
        sources: the code in which methods are found; None where none is shown.
    """
    rows, objects = _Rows(), {}
    if opened.programs:
        for path, class_name in _of_programs(opened):
            row = rows.row(path)
            rows.classes[row] = rows.classes[row] or class_name
    elif opened.recognised.kind in ARCHIVE_KINDS and isinstance(opened.data, Inert):
        for path, value in _of_tree(opened.data, opened):
            row = rows.row(path)
            rows.classes[row] = objects[row] = str(value.what)
    if not rows.paths:
        return None
    parameters, sizes = (np.zeros(len(rows.paths), np.int64) for _ in range(2))
    for name, elements, stored in _tensors(account):
        holder = _holder(rows, name)
        if holder is not None:
            parameters[holder] += elements
            sizes[holder] += stored
    for row in range(len(rows.paths) - 1, 0, -1):
        if rows.parents[row] >= 0:
            parameters[rows.parents[row]] += parameters[row]
            sizes[rows.parents[row]] += sizes[row]
    effects = [0] * len(rows.paths)
    if opened.effects is not None and "" in rows.rows:
        effects[rows.rows[""]] = sum(len(method.effects) for method in opened.effects.methods)
    methods = methods_by_class(sources) if sources is not None else {}
    return {
        "path": list(map(plain, rows.paths)),
        "parent": rows.parents,
        "class": [plain(name.removeprefix("__torch__.")) for name in rows.classes],
        "parameters": parameters.tolist(),
        "bytes": sizes.tolist(),
        "effects": effects,
        "methods": [methods.get(objects.get(row, ""), []) for row in range(len(rows.paths))],
    }


def _of_tree(top: Inert, opened: Archive) -> Iterator[tuple[str, Inert]]:
    """The objects of a module tree with their paths, each once, outer ones first."""
    steps, seen = Steps(MOST_STEPS), {id(top)}
    waiting = [("", top)]
    for path, value in waiting:  # which grows meanwhile
        yield path, value
        opened.allowance.take(MODULE_BYTES + len(path), "modules")
        for key, child in value.attributes.items():
            steps.take()
            if isinstance(child, Inert) and isinstance(child.what, Global) and id(child) not in seen:
                seen.add(id(child))
                waiting.append((f"{path}.{key}" if path else str(key), child))


def _of_programs(opened: Archive) -> Iterator[tuple[str, str]]:
    """The modules in which the nodes of programs were made, with their classes."""
    for name, program in opened.programs.items():
        known: set[tuple[str, str]] = set()
        for site in program.sites.values():
            for instance in site.modules:
                module = instance.path, instance.class_name
                if module not in known:
                    opened.allowance.take(MODULE_BYTES + len(instance.path), "modules")
                    known.add(module)
                    yield label_in(name, instance.path).removesuffix(":"), instance.class_name


def _tensors(account: Account) -> Iterator[tuple[str, int, int]]:
    """Each tensor's name, with the elements and the stored bytes that are its."""
    for piece in account.pieces:
        if piece.weight is not None:
            yield piece.weight.name, piece.weight.elements, piece.stored


def _holder(rows: _Rows, tensor: str) -> int | None:
    """The innermost module that holds a tensor; None where no module does."""
    steps = steps_of(tensor)[:-1]
    while steps:
        path = ".".join(steps)
        if path in rows.rows:
            return rows.rows[path]
        steps.pop()
    return rows.rows.get("")


def methods_by_class(sources: ArchiveSources) -> Methods:
    """The methods of each class, with the number of their record and where they begin in its shown text."""
    found: Methods = {}
    for number, code in enumerate(sources.records):
        module, own = module_of(code.name), None
        matches = list(CLASS_OR_METHOD.finditer(code.data))
        positions = sources.shown[number].at(np.array([match.start() for match in matches], np.int64))
        for match, position in zip(matches, positions.tolist(), strict=True):
            if match["class"]:
                own = found.setdefault(f"{module}.{match['class'].decode()}", [])
            elif own is not None:
                own.append([match["method"].decode(), number, position])
    return found
