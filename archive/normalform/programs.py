"""The metadata of exported programs to columns.

A stack trace is a path in the tree of calls, from the innermost to the outermost; module stacks, and the
functions that made a node, are paths in separate trees. An instance is named relative to the module around
it, so that the layers of a model share their instances. Rows are numbered by first use. A text that its build
function cannot rebuild is kept as it is, in the table ``kept``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from archive.base.keys import text_key
from archive.formats.exported.modules import parse_modules
from archive.formats.exported.node_metadata import (
    FUNCTION,
    FUNCTIONS,
    MODULES,
    ORIGINS,
    STACK_TRACE,
    NodeFunction,
    parse_function,
    parse_functions,
)
from archive.formats.exported.origins import NodeOrigin, parse_origins
from archive.formats.exported.traces import parse_trace
from archive.normalform.columns import MOST_MARKED, NO_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite
    from archive.normalform.columns import Columns
    from archive.normalform.pool import Pool

NUMBERED = re.compile(r"(?P<base>.*)_(?P<number>0|[1-9][0-9]{0,8})", re.DOTALL)
"""A name with a number at its end, which PyTorch counts."""
NO_MARK = (-1, 0, 0, 0)


class UniqueRows:
    """The rows of a table, without duplicates."""

    def __init__(self, table: str, *fields: str) -> None:
        self._table, self._fields = table, fields
        self._numbers: dict[str, int] = {}
        self._rows: list[tuple[int, ...]] = []

    def number(self, *row: int) -> int:
        """The number of a row, which is added if it is new."""
        number = self._numbers.setdefault(text_key(*row), len(self._rows))
        if number == len(self._rows):
            self._rows.append(row)
        return number

    def add(self, *row: int) -> int:
        """Add a row, even if an equal one exists; return its number."""
        self._rows.append(row)
        return len(self._rows) - 1

    def path(self, rows: Iterable[tuple[int, ...]]) -> int:
        """The number of the last of some rows, each of which begins with the previous one's number."""
        at = NO_ROW
        for row in rows:
            at = self.number(at, *row)
        return at

    def columns(self) -> Columns:
        """The columns by name."""
        values = np.array(self._rows, np.int64).reshape(len(self._rows), len(self._fields))
        return {f"{self._table}.{field}": values[:, at].copy() for at, field in enumerate(self._fields)}


class ProgramPacker:
    """Packs programs."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.program = UniqueRows("program", "name", "sites", "scopes")
        self.scope = UniqueRows("scope", "parent", "holder", "name")
        self.site = UniqueRows(
            "site",
            "scope",
            "base",
            "number",
            "target",
            "keys",
            "trace",
            "layout",
            "inside",
            "maker",
            "made",
            "origin",
        )
        self.line = UniqueRows(
            "line", "file", "number", "function", "code", "blank", "before", "carets", "after"
        )
        self.call = UniqueRows("call", "outer", "line")
        self.instance = UniqueRows("instance", "name", "whole", "class", "key")
        self.inside = UniqueRows("inside", "outer", "instance", "id", "call")
        self.maker = UniqueRows("maker", "base", "number", "function")
        self.made = UniqueRows("made", "outer", "maker")
        self.origin = UniqueRows(
            "origin", "base", "number", "target", "graph", "pass", "action", "inner", "next"
        )
        self.address = UniqueRows("address", "value")
        self.keyset = UniqueRows("keyset", "count")
        self.key = UniqueRows("key", "name")
        self.kept = UniqueRows("kept", "site", "key", "text")
        self._keysets: dict[tuple[str, ...], int] = {}
        self._known: defaultdict[str, dict[str, tuple[int, int] | None]] = defaultdict(dict)
        self._packers: dict[str, Callable[[str], tuple[int, int] | None]] = {
            STACK_TRACE: self._trace,
            MODULES: self._modules,
            FUNCTION: self._function,
            FUNCTIONS: self._functions,
            ORIGINS: self._origins,
        }

    def add(self, program: Program) -> None:
        """Add a program's sites, in the order of the file."""
        scopes: dict[str, int] = {"": NO_ROW}
        rows: dict[str, int] = {}
        for key, site in program.sites.items():
            where = key.removesuffix(site.name)
            if where not in scopes:
                parent, holder = rows_of_holder(site, scopes, rows)
                scopes[where] = self.scope.add(parent, holder, self._text(site.scopes[-1].name))
            rows[key] = self._site(site, scopes[where])
        self.program.add(self._text(program.name), len(rows), len(scopes) - 1)

    def columns(self) -> Columns:
        """The columns by name."""
        tables = (
            *(self.program, self.scope, self.site, self.line, self.call, self.instance, self.inside),
            *(self.maker, self.made, self.origin, self.address, self.keyset, self.key, self.kept),
        )
        return {name: values for table in tables for name, values in table.columns().items()}

    def _text(self, text: str | None) -> int:
        return NO_ROW if text is None else self._pool.number(text.encode("utf-8", "surrogatepass"))

    def _site(self, site: NodeSite, scope: int) -> int:
        packed: dict[str, tuple[int, int]] = {}
        as_they_are = []
        for key, text in site.metadata.items():
            known = self._known[key]
            if text not in known:
                packer = self._packers.get(key)
                known[text] = None if packer is None else packer(text)
            value = known[text]
            if value is None or value[0] == NO_ROW:
                as_they_are.append((self._text(key), self._text(text)))
            else:
                packed[key] = value
        none = (NO_ROW, 0)
        trace, layout = packed.get(STACK_TRACE, none)
        number = self.site.add(
            scope,
            *self._name(site.name),
            self._text(site.target),
            self._keyset(tuple(site.metadata)),
            trace,
            layout,
            *(packed.get(key, none)[0] for key in (MODULES, FUNCTION, FUNCTIONS, ORIGINS)),
        )
        for key_and_text in as_they_are:
            self.kept.add(number, *key_and_text)
        return number

    def _keyset(self, keys: tuple[str, ...]) -> int:
        if keys not in self._keysets:
            self._keysets[keys] = self.keyset.add(len(keys))
            for key in keys:
                self.key.add(self._text(key))
        return self._keysets[keys]

    def _trace(self, text: str) -> tuple[int, int] | None:
        trace = parse_trace(text)
        if trace is None or any(frame.mark and max(frame.mark) >= MOST_MARKED for frame in trace.frames):
            return None
        lines = [
            self.line.number(
                self._text(frame.file),
                frame.line,
                self._text(frame.function),
                self._text(frame.code),
                *(NO_MARK if frame.mark is None else frame.mark),
            )
            for frame in trace.frames
        ]
        return self.call.path((line,) for line in lines), trace.indented + 2 * trace.ended

    def _modules(self, text: str) -> tuple[int, int] | None:
        instances = parse_modules(text)
        if instances is None:
            return None
        rows, outer = [], ""
        for instance in instances:
            path, key = instance.path, instance.key
            name = path.removeprefix(f"{outer}.") if outer else path
            whole, outer = bool(outer) and name == path, path
            number = self.instance.number(
                self._text(name), whole, self._text(instance.class_name), self._text(key.base)
            )
            module = NO_ROW if key.id is None else self.address.number(key.id)
            rows.append((number, module, NO_ROW if key.call is None else key.call))
        return self.inside.path(rows), 0

    def _name(self, name: str) -> tuple[int, int]:
        """The string of a name without the number at its end, and the number; -1 if there is none."""
        match = NUMBERED.fullmatch(name)
        if match is None:
            return self._text(name), NO_ROW
        return self._text(match["base"]), int(match["number"])

    def _maker(self, function: NodeFunction) -> int:
        return self.maker.number(*self._name(function.name), self._text(function.function))

    def _function(self, text: str) -> tuple[int, int] | None:
        function = parse_function(text)
        return None if function is None else (self._maker(function), 0)

    def _functions(self, text: str) -> tuple[int, int] | None:
        functions = parse_functions(text)
        if functions is None:
            return None
        return self.made.path((self._maker(function),) for function in functions), 0

    def _origins(self, text: str) -> tuple[int, int] | None:
        origins = parse_origins(text)
        return None if origins is None or not _fit(origins) else (self._origin(origins), 0)

    def _origin(self, origins: Sequence[NodeOrigin]) -> int:
        at = NO_ROW
        for node in reversed(origins):
            inner = self._origin(node.origins)
            target, made_by, action = map(self._text, (node.target, node.made_by, node.action))
            graph = self.address.number(node.graph)
            at = self.origin.number(*self._name(node.name), target, graph, made_by, action, inner, at)
        return at


def _fit(origins: Sequence[NodeOrigin]) -> bool:
    """Whether the ids of all graphs have 64 bits."""
    return all(-(1 << 63) <= origin.graph < 1 << 63 and _fit(origin.origins) for origin in origins)


def rows_of_holder(site: NodeSite, scopes: Mapping[str, int], rows: Mapping[str, int]) -> tuple[int, int]:
    """The scope and the site that hold a site's graph."""
    holder = site.holder
    outer = holder.removesuffix(site.scopes[-1].holder)
    return scopes[outer], rows[holder]
