"""The places of operations that ran in stock PyTorch, from its call stacks and the archive's debug info.

The calls in an archive's generated code: which module each one calls, by its attributes.

PyTorch's call stacks name a module only by its last attribute: ``0`` for ``down.0`` and ``up.0``. Generated
code has the whole way::

    up = self.up
    _0 = getattr(up, "0")
    x = (_0).forward(x, )

Its syntax is Python's. It is parsed, and nothing of it runs.
"""

from __future__ import annotations

import ast
import re
from dataclasses import field
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass
from archive.base.source_files import is_pytorchs
from archive.debuginfo.frames import CALL
from archive.debuginfo.profiles.places import INSTANCES_WITHOUT_LEVEL, ModuleLevel, OperationPlace, place_of
from archive.debuginfo.source_lines import lines_of, model_line
from archive.formats.record_kinds import CODE, code_of, code_record, module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from archive.debuginfo.source_lines import SourceLine
    from archive.debuginfo.symbolicate import Symbolication
    from archive.reader.archive import Archive

# --- code

Path = tuple[str, ...]
LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator)
"""Parts of code that no call is in."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call of a module's method.

    Attributes:
        path: the attributes that lead from ``self`` to the module; none for ``self``.
    """

    start: int
    end: int
    first_line: int
    last_line: int
    method: str
    path: Path


@dataclass(frozen=True)
class CodeFunction:
    """A function or method of generated code."""

    type_name: str
    name: str
    first_line: int
    last_line: int
    calls: tuple[CallSite, ...]


@dataclass(frozen=True)
class ParsedCode:
    """A record of generated code.

    Attributes:
        types: for each class the type of each attribute that is a module.
    """

    name: str
    text: bytes
    functions: list[CodeFunction] = field(default_factory=list)
    types: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def line_starts(self) -> list[int]:
        """The first byte of each line, and the byte after the last line."""
        return [0, *accumulate(map(len, self.text.splitlines(keepends=True)))]

    def sites(self) -> Iterator[tuple[CodeFunction, CallSite]]:
        """The calls of modules, each with the function that it is in."""
        return ((function, site) for function in self.functions for site in function.calls)

    def function_at(self, line: int) -> CodeFunction | None:
        """The function that a line belongs to."""
        return next(
            (function for function in self.functions if function.first_line <= line <= function.last_line),
            None,
        )


class GeneratedCode:
    """The generated code of an archive."""

    def __init__(self, names: Collection[str], read: Callable[[str], bytes]) -> None:
        self._names = names
        self._read = read
        self.record = cache(self._record)
        self.type_of = cache(self._type_of)

    def _record(self, name: str) -> ParsedCode | None:
        """A code record; None if the archive has none of this name, or it is not Python's syntax."""
        if name not in self._names:
            return None
        text = self._read(name)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        made = ParsedCode(name, text)
        module = module_of(name)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                type_name = f"{module}.{node.name}"
                types = made.types[type_name] = {}  # attributes whose type is a class of the archive
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        made.functions.append(_function(part, type_name, made))
                    elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                        types[part.target.id] = ast.unparse(part.annotation)
                    elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Subscript):
                        key = part.targets[0].slice  # __annotations__["0"] = __torch__.Block
                        if isinstance(key, ast.Constant) and isinstance(key.value, str):
                            types[key.value] = ast.unparse(part.value)
            elif isinstance(node, ast.FunctionDef):
                made.functions.append(_function(node, "", made))
        return made

    def _type_of(self, type_name: str, path: Path) -> str:
        """The class of the module that attributes lead to from a module of a class; "" if unknown."""
        for attribute in path:
            record = self.record(code_record(type_name.rpartition(".")[0]))
            type_name = "" if record is None else record.types.get(type_name, {}).get(attribute, "")
        return type_name


def _function(node: ast.FunctionDef, type_name: str, record: ParsedCode) -> CodeFunction:
    """A function with the calls of modules in it."""
    known: dict[str, Path] = {node.args.args[0].arg: ()} if type_name and node.args.args else {}
    calls = []
    left = [*ast.iter_child_nodes(node)][::-1]
    while left:  # in the order of the text
        part = left.pop()
        if isinstance(part, LEAVES):
            continue
        left += [*ast.iter_child_nodes(part)][::-1]
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            path = _path(part.value, known)
            if path is not None:
                known[part.targets[0].id] = path
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            path = _path(part.func.value, known)
            if path is not None:
                last = part.end_lineno or part.lineno
                start = record.line_starts[part.lineno - 1] + part.col_offset
                end = record.line_starts[last - 1] + (part.end_col_offset or 0)
                calls.append(CallSite(start, end, part.lineno, last, part.func.attr, path))
    return CodeFunction(type_name, node.name, node.lineno, node.end_lineno or node.lineno, tuple(calls))


def _path(node: ast.expr, known: dict[str, Path]) -> Path | None:
    """The attributes that lead from ``self`` to the value of an expression; None for other expressions."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        base, name = _path(node.value, known), node.attr
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        given = node.args[1]
        if not isinstance(given, ast.Constant):
            return None
        base, name = _path(node.args[0], known), str(given.value)
    else:
        return None
    return None if base is None else (*base, name)


# --- places

EITHER = "|"
"""Stands between the names of modules, any of which may be the one that is called."""


class StackStep(NamedTuple):
    """A step of a call stack in generated code."""

    record: ParsedCode
    line: int
    function: CodeFunction


_Sites: TypeAlias = dict[tuple[int, str, str], list[tuple[CodeFunction, CallSite]]]


class StockPlaces:
    """Finds places in one archive."""

    def __init__(self, opened: Archive) -> None:
        self._opened = opened
        self._code = GeneratedCode(opened.records, lambda name: bytes(opened.records[name].view()))
        self._with_ranges = {code_of(name) for name in opened.range_records}
        self._lines_at = cache(self._lines_of)
        self._step_of = cache(self._called)
        self._sites_in = cache(self._sites_of)

    def _lines_of(self, record: str, offset: int) -> tuple[SourceLine, ...] | None:
        """The lines that a position in code comes from; None where no range is recorded."""
        span = self._opened.locate(record, offset)
        return None if span is None else tuple(lines_of(span))

    def of_handle(self, handle: int) -> OperationPlace:
        """The place that a debug handle stands for; modules in lists have their whole path."""
        return place_of(self._opened.symbolicate(handle), self._levels_of)

    def _levels_of(self, symbolicated: Symbolication) -> Iterator[ModuleLevel]:
        """The modules that lead to an operation from the top module."""
        caller, path = self._opened.qualified_top, ""
        for call in (step for entry in reversed(symbolicated.entries) for step in entry.stack):
            if call.module is None:
                continue
            callee, instance = str(call.module.type_name), str(call.module.instance)
            step = self._step_of(int(call.tag), caller, str(call.function), callee, instance)
            caller = callee
            if instance not in INSTANCES_WITHOUT_LEVEL:
                path = f"{path}.{one_line(step)}".removeprefix(".")
                yield ModuleLevel(path, one_line(callee.rpartition(".")[2]), one_line(step))

    def _called(self, tag: int, caller: str, function: str, callee: str, instance: str) -> str:
        """The attributes that lead from a module to the one that it calls."""
        sites = self._sites_in(caller.rpartition(".")[0]).get((tag, caller, function), []) if tag >= 0 else []
        return _one_path(sites, caller, callee, self._code, last=instance) or instance

    @cached_property
    def _ranges_by_module(self) -> dict[str, list[int]]:
        """The numbers of the records of source ranges, by the module whose code they are of."""
        numbers: dict[str, list[int]] = {}
        for number, name in enumerate(self._opened.range_table.names):
            numbers.setdefault(module_of(code_of(name)), []).append(number)
        return numbers

    def _sites_of(self, module: str) -> _Sites:
        """The calls in a module's generated code, by the tag of their range, class, and method.

        Code is parsed for the classes that call: most only run operators, as ``Linear`` does.
        """
        table = self._opened.range_table
        sites: _Sites = {}
        for number in self._ranges_by_module.get(module, ()):
            record = self._code.record(code_of(table.names[number]))
            rows = table.rows(number)
            offsets = table.offset[rows.start : rows.stop]
            found = [] if record is None else [*record.sites()]
            last = np.searchsorted(offsets, [site.start for _, site in found], "right") - 1
            tags = table.tag[rows.start : rows.stop][last].tolist() if len(offsets) else []
            for (function, site), at, tag in zip(found, last.tolist(), tags, strict=False):
                if at >= 0:
                    key = tag, function.type_name, site.method
                    sites.setdefault(key, []).append((function, site))
        return sites

    def of_stack(self, stack: Sequence[str], op: str) -> OperationPlace:
        """The place of an operation of TorchScript.

        Args:
            stack: its call stack, innermost first, as ``torch.profiler`` gives it.
        """
        steps = [step for entry in reversed(stack) if (step := self._step(entry)) is not None]
        levels = [ModuleLevel(f"top({self._opened.top})", ""), *self._levels_between(steps)]
        hierarchy = ".".join(map(str, levels))
        # The positions in code of the operator and of the calls that lead to it, innermost first.
        positions = []
        for number in reversed(range(len(steps))):
            record, line, function = steps[number]
            callee = steps[number + 1].function if number + 1 < len(steps) else None
            if callee is None:
                offsets = _calls_on(line, record, op.rpartition("::")[2])
            elif callee.type_name:
                offsets = [site.start for site in _sites_on(line, function, callee.name)]
            else:
                offsets = _calls_on(line, record, callee.name, *_aliases(callee.name, function, record))
            positions.append((record, offsets or [record.line_starts[line - 1]]))
        source, innermost = self._source(positions)
        return OperationPlace(tuple(levels), f"{hierarchy}.{op}", source, innermost, op)

    def _levels_between(self, steps: Sequence[StackStep]) -> Iterator[ModuleLevel]:
        """The modules whose methods the steps of a call stack call, outermost first."""
        path = ""
        for (_, line, caller), (_, _, callee) in pairwise(steps):
            if callee.type_name:
                sites = [(caller, site) for site in _sites_on(line, caller, callee.name)]
                attributes = _one_path(sites, caller.type_name, callee.type_name, self._code)
                if attributes and attributes not in INSTANCES_WITHOUT_LEVEL:
                    path = f"{path}.{one_line(attributes)}".removeprefix(".")
                    yield ModuleLevel(path, callee.type_name.rpartition(".")[2], one_line(attributes))

    def _step(self, entry: str) -> StackStep | None:
        """The step of an entry of a call stack; None if it isn't in the archive's code."""
        place = CALL.fullmatch(entry)
        if place is None or not place["file"].startswith(CODE[0]):
            return None
        record = self._code.record(place["file"])
        if record is None:
            return None
        line = int(place["line"])
        function = record.function_at(line)
        return None if function is None else StackStep(record, line, function)

    def _source(
        self, positions: Sequence[tuple[ParsedCode, Sequence[int]]]
    ) -> tuple[SourceLine | None, SourceLine | None]:
        """The innermost line that is not in PyTorch's source, and the innermost one; None for several.

        Args:
            positions: for each step of a call stack, innermost first, the positions in code that it may be.
        """
        innermost: list[SourceLine | None] = []
        for record, offsets in positions:
            if record.name not in self._with_ranges:  # split off
                continue
            found = (self._lines_at(record.name, offset) for offset in offsets)
            stacks = {lines for lines in found if lines is not None}
            innermost.append(_only({lines[0] for lines in stacks if lines}))
            own = {line for lines in stacks if (line := model_line(lines)) and not is_pytorchs(line.file)}
            if own:
                return _only(own), innermost[0]
        return (innermost[0], innermost[0]) if innermost else (None, None)


def _sites_on(line: int, function: CodeFunction, method: str) -> list[CallSite]:
    return [
        call for call in function.calls if call.first_line <= line <= call.last_line and call.method == method
    ]


def _calls_on(line: int, record: ParsedCode, *names: str) -> list[int]:
    """Where an operator or a function is called on a line."""
    start, end = record.line_starts[line - 1], record.line_starts[line]
    any_of = "|".join(map(re.escape, names)).encode()
    calls = re.finditer(rb"[\w.]*\b(?:%b)\(" % any_of, record.text[start:end])
    return [start + call.start() for call in calls]


def _aliases(name: str, caller: CodeFunction, record: ParsedCode) -> list[str]:
    """What a function calls another one: ``_0 = __torch__.torch.nn.functional.layer_norm``."""
    text = record.text[record.line_starts[caller.first_line - 1] : record.line_starts[caller.last_line]]
    pattern = rb"^ *(\w+) = [\w.]+\.%b$" % re.escape(name.encode())
    return [found.decode() for found in re.findall(pattern, text, re.MULTILINE)]


def _only(lines: set[SourceLine]) -> SourceLine | None:
    return lines.pop() if len(lines) == 1 else None


def _one_path(
    sites: Iterable[tuple[CodeFunction, CallSite]],
    caller: str,
    callee: str,
    code: GeneratedCode,
    last: str = "",
) -> str:
    """The attributes that lead from a module to the one that is called, joined by dots.

    Args:
        sites: the calls that may be meant, with the functions that they are in.
        last: the last attribute; "" if it is unknown.

    Returns:
        "" for the module itself, or if there is none. Several paths are joined by ``EITHER``.
    """
    paths = {
        site.path
        for function, site in sites
        if function.type_name == caller and code.type_of(caller, site.path) == callee
    }
    if last:
        paths = {path for path in paths if path[-1:] == (last,)}
    return EITHER.join(sorted(".".join(path) for path in paths))
