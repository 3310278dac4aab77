"""The modules of a file as a tree in columns: those of TorchScript's module tree, or those that nodes name.

A module's tensors are those whose names begin with its path; elements and bytes are of all below it, counting
shared ones once. Where the archive doesn't show whose tensors they are, both are None: a companion has none,
and a program may name its modules differently from its tensors.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.limits import Steps
from archive.formats.exported.modules import paths_in_model
from archive.formats.inert_values import is_object
from archive.formats.record_kinds import label_in, module_of
from archive.page.units import plain
from archive.reader.recognition import ARCHIVE_KINDS
from archive.reader.tensors import parts_of_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.describe.sizes import Account
    from archive.page.sources import ArchiveSources
    from archive.reader.archive import Archive
    from archive.reader.tensors import Tensors

MOST_STEPS = 1 << 24
"""Steps to look through the values of a module tree, and the modules that share a tensor."""
CLASS_OR_METHOD = re.compile(rb"^(?:class (?P<class>\w+)\(|  def (?P<method>\w+)\()", re.MULTILINE)

Methods = dict[str, list[list[Any]]]


class _Rows:
    """The rows of the table, each module once, after what it is in. Each program has its own tree.

    Attributes:
        rows: by the program's name and the path in it; "" is TorchScript's, which has one tree.
    """

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.parents: list[int] = []
        self.classes: list[str] = []
        self.elements: list[int | None] = []
        self.bytes: list[int | None] = []
        self.rows: dict[tuple[str, str], int] = {}

    def row(self, program: str, path: str) -> int:
        """The row of a module, and of all that it is in."""
        missing = []
        while (program, path) not in self.rows:
            missing.append(path)
            if not path:
                break
            path = path.rpartition(".")[0]
        for one in reversed(missing):
            memory.take(2 * memory.ROW + len(one), "modules")
            self.parents.append(self.rows[program, one.rpartition(".")[0]] if one else -1)
            self.rows[program, one] = len(self.labels)
            self.labels.append(label_in(program, one).removesuffix(":") if program else one)
            self.classes.append("")
            self.elements.append(None)
            self.bytes.append(None)
        return self.rows[program, missing[0] if missing else path]

    def holder(self, program: str, tensor: str) -> tuple[int, bool]:
        """The innermost module that holds a tensor, and whether the tensor is its own attribute."""
        path = own = tensor.rpartition(".")[0]
        while (program, path) not in self.rows:
            path = path.rpartition(".")[0]
        return self.rows[program, path], path == own


def modules_facts(opened: Archive, account: Account, sources: ArchiveSources | None) -> dict[str, Any] | None:
    """The columns of the modules; None where the file names none.

    Args:
        sources: the code in which to find methods; None where none is shown.
    """
    rows, objects = _Rows(), {}
    if opened.programs:
        for program, path, class_name in _of_programs(opened):
            row = rows.row(program, path)
            rows.classes[row] = rows.classes[row] or class_name
    elif opened.recognised.kind in ARCHIVE_KINDS and is_object(opened.data):
        for path, value in _of_tree(opened.data):
            row = rows.row("", path)
            rows.classes[row] = objects[row] = str(value.what)
    if not rows.labels:
        return None
    if not account.is_companion:
        with suppress(ArchiveError):  # `verify` reports it
            _add_tensors(rows, opened.tensors, account)
    effects = [0] * len(rows.labels)
    if opened.effects is not None and ("", "") in rows.rows:
        effects[rows.rows["", ""]] = sum(len(method.effects) for method in opened.effects.methods)
    methods = methods_by_class(sources) if sources is not None else {}
    return {
        "path": list(map(plain, rows.labels)),
        "parent": rows.parents,
        "class": [plain(name.removeprefix("__torch__.")) for name in rows.classes],
        "elements": rows.elements,
        "bytes": rows.bytes,
        "effects": effects,
        "methods": [methods.get(objects.get(row, ""), []) for row in range(len(rows.labels))],
    }


def _of_tree(top: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 (an object of the tree)
    """The objects of a module tree with their paths, each once, outer ones first."""
    steps, seen = Steps(MOST_STEPS), {id(top)}
    waiting = [("", top)]
    for path, value in waiting:  # which grows meanwhile
        yield path, value
        memory.take(2 * memory.ROW + len(path), "modules")
        for key, child in value.attributes.items():
            steps.take()
            if is_object(child) and id(child) not in seen:
                seen.add(id(child))
                waiting.append((f"{path}.{key}" if path else str(key), child))


def _of_programs(opened: Archive) -> Iterator[tuple[str, str, str]]:
    """The modules in which the nodes of programs were made: program, path and class."""
    for name, program in opened.programs.items():
        known: set[tuple[str, str]] = set()
        for site in program.sites.values():
            for instance, path in zip(site.modules, paths_in_model(site.modules), strict=True):
                if (path, instance.class_name) not in known:
                    memory.take(2 * memory.ROW + len(path), "modules")
                    known.add((path, instance.class_name))
                    yield name, path, instance.class_name


# --- tensors


def _add_tensors(rows: _Rows, tensors: Tensors, account: Account) -> None:
    """Give modules the sums of their tensors, as far as the archive has these.

    A program whose tensors aren't all attributes of modules that its nodes name may name modules differently.
    Then nothing is known of those that seem to have no tensor.
    """
    stored, inflated = Counter[str](), Counter[str]()
    for piece in account.pieces:
        if piece.weight is not None:
            stored[piece.weight.name] += piece.stored
            inflated[piece.weight.name] += piece.inflated
    owners = {
        part: program
        for program in dict.fromkeys(program for program, _ in rows.rows)
        for part in (parts_of_program(program) if program else tensors.parts)
        if part in tensors.parts
    }
    counts, sizes = _Sums(rows.parents), _Sums(rows.parents)
    named_otherwise = set[str]()
    for names in tensors.storages.values():
        holders = defaultdict[_View, list[int]](list)
        for name in names:
            part, path = tensors.part_of(name)
            if part in owners:
                holder, is_own = rows.holder(owners[part], path)
                if owners[part] and not is_own:
                    named_otherwise.add(owners[part])
                tensor = tensors[name]
                most = inflated[names[0]] // (tensor.width or 1)
                view = _View(tensor.offset, tensor.shape, tensor.strides, min(tensor.count, most))
                holders[view].append(holder)
        for view, own in holders.items():
            counts.add(own, view.elements)
        sizes.add(chain.from_iterable(holders.values()), stored[names[0]])
    known = set(owners.values())
    sums = zip(counts.whole(), sizes.whole(), strict=True)
    for ((program, _), row), (elements, size) in zip(rows.rows.items(), sums, strict=True):
        if program in known and (elements or size or program not in named_otherwise):
            rows.elements[row], rows.bytes[row] = elements, size


class _View(NamedTuple):
    """The elements of a storage that a tensor has; two tensors with the same ones are one."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    elements: int


class _Sums:
    """An amount for each row and all rows below it; what several rows share counts once in each.

    Args:
        parents: the row that each row is in, or -1; it comes before.
    """

    def __init__(self, parents: list[int]) -> None:
        self._parents = parents
        self._own, self._shared = [0] * len(parents), [0] * len(parents)
        self._steps = Steps(MOST_STEPS)

    def add(self, holders: Iterable[int], amount: int) -> None:
        """Add an amount that some rows share."""
        distinct = list(dict.fromkeys(holders))
        if not distinct:
            return
        self._own[distinct[0]] += amount
        if len(distinct) > 1:
            counted = set(self._with_outer(distinct[0]))
            for row in distinct[1:]:
                new = list(takewhile(lambda outer: outer not in counted, self._with_outer(row)))
                counted.update(new)
                for outer in new:
                    self._shared[outer] += amount

    def _with_outer(self, row: int) -> Iterator[int]:
        while row >= 0:
            self._steps.take()
            yield row
            row = self._parents[row]

    def whole(self) -> list[int]:
        """The sums."""
        sums = list(self._own)
        for row in range(len(sums) - 1, 0, -1):
            if self._parents[row] >= 0:
                sums[self._parents[row]] += sums[row]
        return [own + shared for own, shared in zip(sums, self._shared, strict=True)]


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
