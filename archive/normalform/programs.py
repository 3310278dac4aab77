"""The metadata of exported programs to columns.

A stack trace is a path in the tree of calls, from the innermost to the outermost; module stacks, and the
functions that made a node, are paths in trees of their own. An instance's name is that below the module
around it, so that the layers of a model share their instances. Rows are numbered by first use. A text that
its build function does not give again is kept as it stands, in the table ``kept``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from archive.formats.exported.modules import Instance, parse_modules
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
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from archive.formats.exported.program import Program
    from archive.formats.exported.sites import NodeSite
    from archive.normalform.columns import Columns
    from archive.normalform.pool import Pool

NUMBERED = re.compile(r"(?P<base>.*)_(?P<number>0|[1-9][0-9]{0,8})", re.DOTALL)
"""A name with a number at its end, which PyTorch counts."""
NO_MARK = (-1, 0, 0, 0)


class Rows:
    """The rows of a table, each once.

    Args:
        table: its name.
        fields: the names of its columns.
    """

    def __init__(self, table: str, *fields: str) -> None:
        self._table, self._fields = table, fields
        self._numbers: dict[tuple[int, ...], int] = {}
        self._rows: list[tuple[int, ...]] = []

    def number(self, *row: int) -> int:
        """The number of a row, which is added if it is new."""
        known = self._numbers.setdefault(row, len(self._rows))
        if known == len(self._rows):
            self._rows.append(row)
        return known

    def add(self, *row: int) -> int:
        """Add a row, whether or not there is one like it; its number."""
        self._rows.append(row)
        return len(self._rows) - 1

    def path(self, rows: Iterable[tuple[int, ...]]) -> int:
        """The number of the last of some rows, each of which begins with the number of the one before it."""
        at = NO_ROW
        for row in rows:
            at = self.number(at, *row)
        return at

    def columns(self) -> Columns:
        """The columns by name."""
        values = np.array(self._rows, np.int64).reshape(len(self._rows), len(self._fields))
        return {f"{self._table}.{field}": values[:, at].copy() for at, field in enumerate(self._fields)}  # type: ignore[misc]


class ProgramPacker:
    """Packs programs.

    Args:
        pool: of strings.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.program = Rows("program", "name", "sites", "scopes")
        self.scope = Rows("scope", "parent", "holder", "name")
        self.site = Rows(
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
        self.line = Rows("line", "file", "number", "function", "code", "blank", "before", "carets", "after")
        self.call = Rows("call", "outer", "line")
        self.instance = Rows("instance", "name", "whole", "class", "key")
        self.inside = Rows("inside", "outer", "instance", "id", "call")
        self.maker = Rows("maker", "base", "number", "function")
        self.made = Rows("made", "outer", "maker")
        self.origin = Rows("origin", "base", "number", "target", "graph", "pass", "action", "inner", "next")
        self.address = Rows("address", "value")
        self.keyset = Rows("keyset", "count")
        self.key = Rows("key", "name")
        self.kept = Rows("kept", "site", "key", "text")
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
        kept = []
        for key, text in site.metadata.items():
            known = self._known[key]
            if text not in known:
                packer = self._packers.get(key)
                known[text] = None if packer is None else packer(text)
            value = known[text]
            if value is None or value[0] == NO_ROW:
                kept.append((self._text(key), self._text(text)))
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
        for one in kept:
            self.kept.add(number, *one)
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
        found = parse_modules(text)
        if found is None:
            return None
        return self.inside.path(self._instances(found)), 0

    def _instances(self, found: Iterable[Instance]) -> Iterator[tuple[int, int, int]]:
        outer = ""
        for one in found:
            name = one.path.removeprefix(f"{outer}.") if outer else one.path
            whole = bool(outer) and name == one.path
            outer = one.path
            yield (
                self.instance.number(
                    self._text(name), whole, self._text(one.class_name), self._text(one.key.base)
                ),
                NO_ROW if one.key.id is None else self.address.number(one.key.id),
                NO_ROW if one.key.call is None else one.key.call,
            )

    def _name(self, name: str) -> tuple[int, int]:
        """The string of a name without the number at its end, and the number; -1 where there is none."""
        found = NUMBERED.fullmatch(name)
        return (
            (self._text(name), NO_ROW) if found is None else (self._text(found["base"]), int(found["number"]))
        )

    def _maker(self, one: NodeFunction) -> int:
        return self.maker.number(*self._name(one.name), self._text(one.function))

    def _function(self, text: str) -> tuple[int, int] | None:
        found = parse_function(text)
        return None if found is None else (self._maker(found), 0)

    def _functions(self, text: str) -> tuple[int, int] | None:
        found = parse_functions(text)
        return None if found is None else (self.made.path((self._maker(one),) for one in found), 0)

    def _origins(self, text: str) -> tuple[int, int] | None:
        found = parse_origins(text)
        return None if found is None or not _fit(found) else (self._origin(found), 0)

    def _origin(self, origins: Sequence[NodeOrigin]) -> int:
        at = NO_ROW
        for one in reversed(origins):
            inner = self._origin(one.origins)
            target, made_by, action = map(self._text, (one.target, one.made_by, one.action))
            graph = self.address.number(one.graph)
            at = self.origin.number(*self._name(one.name), target, graph, made_by, action, inner, at)
        return at


def _fit(origins: Sequence[NodeOrigin]) -> bool:
    """Whether the ids of all graphs have 64 bits."""
    return all(-(1 << 63) <= one.graph < 1 << 63 and _fit(one.origins) for one in origins)


def rows_of_holder(site: NodeSite, scopes: Mapping[str, int], rows: Mapping[str, int]) -> tuple[int, int]:
    """The scope and the site that hold a site's graph."""
    holder = site.holder
    outer = holder.removesuffix(site.scopes[-1].holder)
    return scopes[outer], rows[holder]
