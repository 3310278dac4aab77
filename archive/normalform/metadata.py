"""The metadata of exported programs, made from columns: the texts of each node, to the byte."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.columns import firsts
from archive.base.errors import ArchiveError, shown
from archive.base.json_text import MAX_DEPTH
from archive.formats.exported.modules import Instance, Key, build_modules
from archive.formats.exported.node_metadata import (
    FUNCTION,
    FUNCTIONS,
    MODULES,
    ORIGINS,
    STACK_TRACE,
    NodeFunction,
    build_function,
    build_functions,
)
from archive.formats.exported.origins import NodeOrigin, build_origins
from archive.formats.exported.traces import FrameMark, Trace, TraceFrame, build_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.base.strings import StringTable
    from archive.normalform.columns import Columns


PATHS = 5
"""How many times the path of an instance is in memory: itself, in its key, and in texts of both."""
ESCAPED = 6
"""Most characters of JSON that a character takes."""
MUCH = 1 << 62


@memory.kept
class Metadata:
    """The nodes of all programs, and their metadata."""

    def __init__(self, columns: Columns, strings: StringTable) -> None:
        self.allowance = memory.current()
        self._columns = columns
        self._strings = strings
        self._lists: dict[str, list[int]] = {}
        self._texts: dict[int, str] = {}
        self._made: dict[tuple[str, int, int], str] = {}
        self._builders: dict[str, tuple[str, Callable[[int, int], str]]] = {
            STACK_TRACE: ("site.trace", self._trace),
            MODULES: ("site.inside", self._modules),
            FUNCTION: ("site.maker", self._function),
            FUNCTIONS: ("site.made", self._functions),
            ORIGINS: ("site.origin", self._origins),
        }

    @cached_property
    def programs(self) -> dict[str, range]:
        """The programs by name, and the sites of each."""
        first = firsts(self._columns["program.sites"]).tolist()
        names = map(self.text, self._list("program.name"))
        return {name: range(first[at], first[at + 1]) for at, name in enumerate(names)}

    def of(self, site: int) -> dict[str, str]:
        """The metadata of a site."""
        return {key: self._text_of(site, key) for key in self._keysets[self._list("site.keys")[site]]}

    def name(self, site: int) -> str:
        """The name of a site."""
        return self._name("site", site)

    def target(self, site: int) -> str:
        """What a site calls."""
        return self.text(self._list("site.target")[site])

    def has_target(self, target: str) -> bool:
        """Whether a site calls a target."""
        return any(self.text(number) == target for number in {*self._list("site.target")})

    def scopes(self, site: int) -> Iterator[tuple[int, str]]:
        """The graphs that a site is in, the innermost first: the site that holds it, and its name."""
        scope = self._list("site.scope")[site]
        while scope >= 0:
            yield self._list("scope.holder")[scope], self.text(self._list("scope.name")[scope])
            scope = self._list("scope.parent")[scope]

    def text(self, number: int) -> str:
        """A string."""
        text = self._texts.get(number)
        if text is None:
            try:
                text = self._texts[number] = str(self._strings.data(number), "utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                place = f"string {number}, byte {error.start}"
                raise ArchiveError(place=place, expected="UTF-8", found="other bytes") from None
        return text

    def _text_of(self, site: int, key: str) -> str:
        column, build = self._builders.get(key, (None, None))
        row = -1 if column is None else self._list(column)[site]
        if row < 0 or build is None:
            text = self._kept.get((site, key))
            if text is None:
                place = f"site.keys, row {site}"
                raise ArchiveError(place=place, expected=f"a text for {shown(key)}", found="none")
            return text
        layout = self._list("site.layout")[site] if key == STACK_TRACE else 0
        made = self._made.get((key, row, layout))
        if made is None:
            made = self._made[key, row, layout] = build(row, layout)
        return made

    def _list(self, name: str) -> list[int]:
        values = self._lists.get(name)
        if values is None:
            values = self._lists[name] = self._columns[name].tolist()
        return values

    def _name(self, table: str, row: int) -> str:
        base, number = self._list(f"{table}.base")[row], self._list(f"{table}.number")[row]
        return self.text(base) if number < 0 else f"{self.text(base)}_{number}"

    @cached_property
    def _keysets(self) -> list[tuple[str, ...]]:
        first = firsts(self._columns["keyset.count"]).tolist()
        names = [self.text(name) for name in self._list("key.name")]
        return [tuple(names[first[at] : first[at + 1]]) for at in range(len(first) - 1)]

    @cached_property
    def _kept(self) -> dict[tuple[int, str], str]:
        keys, texts = map(self.text, self._list("kept.key")), map(self.text, self._list("kept.text"))
        return dict(zip(zip(self._list("kept.site"), keys, strict=True), texts, strict=True))

    def _path(self, outer: str, row: int) -> list[int]:
        """The rows from the outermost to this one."""
        rows, before = [], self._list(outer)
        while row >= 0:
            rows.append(row)
            row = before[row]
        return rows[::-1]

    def _trace(self, row: int, layout: int) -> str:
        frames = []
        for call in self._path("call.outer", row):
            line = self._list("call.line")[call]
            mark = [self._list(f"line.{part}")[line] for part in ("blank", "before", "carets", "after")]
            code = self._list("line.code")[line]
            frame = TraceFrame(
                self.text(self._list("line.file")[line]),
                self._list("line.number")[line],
                self.text(self._list("line.function")[line]),
                None if code < 0 else self.text(code),
                None if mark[0] < 0 else FrameMark(*mark),
            )
            frames.append(frame)
        self._take(text for frame in frames for text in (frame.file, frame.function, frame.code or ""))
        return build_trace(Trace(tuple(frames), indented=bool(layout & 1), ended=bool(layout & 2)))

    def _modules(self, row: int, _: int) -> str:
        instances, outer = [], ""
        for inside in self._path("inside.outer", row):
            instance, number = self._list("inside.instance")[inside], self._list("inside.id")[inside]
            call, own_key = self._list("inside.call")[inside], self._list("instance.key")[instance]
            name = self.text(self._list("instance.name")[instance])
            whole = not outer or self._list("instance.whole")[instance]
            # Paths grow with each instance, so memory for each is asked for before it is made.
            memory.take(memory.TEXT + PATHS * (len(name) + (0 if whole else len(outer))), "metadata")
            outer = name if whole else f"{outer}.{name}"
            key = Key(
                None if own_key < 0 else self.text(own_key),
                None if number < 0 else self._list("address.value")[number],
                None if call < 0 else call,
            )
            class_name = self.text(self._list("instance.class")[instance])
            self._take((class_name, key.base or ""))
            instances.append(Instance(key, outer, class_name))
        return build_modules(tuple(instances))

    def _maker(self, row: int) -> NodeFunction:
        return NodeFunction(self._name("maker", row), self.text(self._list("maker.function")[row]))

    def _function(self, row: int, _: int) -> str:
        maker = self._maker(row)
        self._take(maker)
        return build_function(maker)

    def _functions(self, row: int, _: int) -> str:
        rows = self._path("made.outer", row)
        makers = tuple(self._maker(self._list("made.maker")[made]) for made in rows)
        self._take(text for maker in makers for text in maker)
        return build_functions(makers)

    @cached_property
    def _origin_costs(self) -> list[int]:
        """The memory of the text of each row and of those it leads to: rows are shared, texts are not."""
        costs: list[int] = []
        rows = zip(
            *(self._list(f"origin.{part}") for part in ("base", "target", "pass", "action")),
            *(self._list("origin.inner"), self._list("origin.next")),
            strict=True,
        )
        for *texts, inner, following in rows:
            cost = memory.TEXT + ESCAPED * sum(len(self.text(text)) for text in texts)
            cost += (costs[inner] if inner >= 0 else 0) + (costs[following] if following >= 0 else 0)
            costs.append(min(cost, MUCH))
        return costs

    def _take(self, texts: Iterable[str]) -> None:
        """Ask for the memory of a text of several parts."""
        memory.take(sum(memory.TEXT + len(text) for text in texts), "metadata")

    def _origins(self, row: int, _: int) -> str:
        memory.take(self._origin_costs[row], "metadata")
        return build_origins(tuple(self._origin_list(row)))

    def _origin_list(self, row: int, depth: int = 0) -> Iterator[NodeOrigin]:
        if depth > MAX_DEPTH:
            raise ArchiveError(place=f"origin.inner, row {row}", expected=f"{MAX_DEPTH} nodes", found="more")
        while row >= 0:
            yield NodeOrigin(
                self._name("origin", row),
                self.text(self._list("origin.target")[row]),
                self._list("address.value")[self._list("origin.graph")[row]],
                self.text(self._list("origin.pass")[row]),
                self.text(self._list("origin.action")[row]),
                tuple(self._origin_list(self._list("origin.inner")[row], depth + 1)),
            )
            row = self._list("origin.next")[row]
