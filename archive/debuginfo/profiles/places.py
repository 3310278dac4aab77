"""Finds the module and the source lines that a debug handle stands for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import one_line, several
from archive.base.quick_dataclass import dataclass
from archive.base.source_files import is_pytorchs
from archive.base.strings import decoded
from archive.debuginfo.frames import CALL
from archive.debuginfo.sites import GENERATED_FILE, SELF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.symbolicate import Symbolication

UNKNOWN_NAME = "(unknown)"
NO_MODULES = "(no modules)"
NO_SOURCE = "(no source)"
NO_DELEGATE = "(no backend)"
INSTANCES_WITHOUT_LEVEL = frozenset({SELF, "__loweredModule__"})
"""Instances in call stacks that aren't a step of a module's path."""
MOST_LINES = 5
"""Most lines of one operation that are listed."""


class ModuleLevel(NamedTuple):
    """A module on the path to an operation.

    Attributes:
        path: its path from the top module; for the top module its name in the hierarchy.
        type: the name of its class.
        step: the last step of the path: ``0``, or ``blocks.0`` if a call goes through a list of modules.
    """

    path: str
    type: str
    step: str = ""

    def __str__(self) -> str:
        return f"{self.step}({self.type})" if self.type else self.path


class SourceLine(NamedTuple):
    """A line of source.

    Attributes:
        file: its file.
        number: its number in the file, from 1.
        text: its text without indentation.
        more: further lines, if the operation was made from several.
    """

    file: str
    number: int
    text: str
    more: tuple[SourceLine, ...] = ()

    def __str__(self) -> str:
        others = [str(line.number) if line.file == self.file else str(line) for line in self.more]
        return several([f"{self.file}:{self.number}", *others], MOST_LINES)

    @property
    def words(self) -> str:
        """Its text; if there are several lines, the first one's, with a mark."""
        return f"{self.text} …" if self.more else self.text


@dataclass(frozen=True, slots=True)
class OperationPlace:
    """The place of an operation in the model.

    Attributes:
        levels: the modules that lead to it, the top module first; only ``(unknown)`` for unknown handles.
        hierarchy: the module hierarchy as PyTorch prints it, or PyTorch's message about unknown handles.
        source: the innermost line that is not in PyTorch's source; the innermost one if all are.
        innermost: the innermost line.
        op: the operator's name in the archive.
        instruction: the ExecuTorch instruction that runs it: ``forward/0:14``; "" for others.
        delegate: the backend that ExecuTorch calls for it; "" for none.
        among: of how many lines it may be, if it is not known of which; then ``source`` is None.
    """

    levels: tuple[ModuleLevel, ...]
    hierarchy: str
    source: SourceLine | None
    innermost: SourceLine | None
    op: str
    instruction: str = ""
    delegate: str = ""
    among: int = 0

    @property
    def is_unknown(self) -> bool:
        """Whether neither a module nor a line is known."""
        return self.source is None and self.levels[0].path in {UNKNOWN_NAME, NO_MODULES}

    @property
    def module(self) -> str:
        """The path of the module that the operation belongs to; ``top(Class)`` for the top module."""
        return self.levels[-1].path


UNKNOWN_PLACE = OperationPlace((ModuleLevel(UNKNOWN_NAME, ""),), UNKNOWN_NAME, None, None, UNKNOWN_NAME)
"""The place of an operation about which nothing is known."""


def node_id(place: OperationPlace, op: str, key: int | str | None) -> str:
    """The id of an operation in a graph of its model: the same for the graph, and for what a run notes of it.

    Args:
        op: its operator: ``aten::linear``.
        key: its debug handle, or its node's name; None where its form has neither. There it is its module,
            operator and line, which several operations may share.
    """
    if key is not None:
        return str(key)
    line = NO_SOURCE if place.source is None else f"{place.source.file}:{place.source.number}"
    return f"{place.module} {op} {line}"


def weight_id(name: str) -> str:
    """The id of a tensor that a model holds, by its name."""
    return f"weight {name}"


def common_place(places: Sequence[OperationPlace]) -> OperationPlace:
    """The place of an operation that may be any of several: the modules and lines that all of them share."""
    first = places[0] if places else UNKNOWN_PLACE
    if all(place == first for place in places):
        return first
    shared = [
        level
        for level, *others in zip(*(place.levels for place in places), strict=False)
        if {*others} == {level}
    ]
    source, innermost = (
        {*lines} for lines in zip(*((place.source, place.innermost) for place in places), strict=True)
    )
    return replace(
        first,
        among=len(source) if len(source) > 1 else 0,
        levels=tuple(shared) or UNKNOWN_PLACE.levels,
        hierarchy=".".join(map(str, shared)) or UNKNOWN_NAME,
        source=source.pop() if len(source) == 1 else None,
        innermost=innermost.pop() if len(innermost) == 1 else None,
    )


def joint_place(places: Sequence[OperationPlace]) -> OperationPlace:
    """The place of an operation made from several: the modules that they share, and all their lines."""
    common = common_place(places)
    source, innermost = (
        joint_line([line for line in lines if line is not None])
        for lines in (
            [place.source for place in places],
            [place.innermost for place in places],
        )
    )
    return replace(common, source=source, innermost=innermost)


def joint_line(lines: Sequence[SourceLine]) -> SourceLine | None:
    """Several lines as one, without duplicates; None if there are none."""
    distinct = tuple(dict.fromkeys(lines))
    return distinct[0]._replace(more=distinct[1:]) if distinct else None


def _levels_of(symbolication: Symbolication) -> Iterator[ModuleLevel]:
    """The modules of its call stacks, each by the last attribute that leads to it, which is all they have."""
    path: list[str] = []
    for call in (call for entry in reversed(symbolication.entries) for call in entry.stack):
        if call.module is not None and (instance := str(call.module.instance)) not in INSTANCES_WITHOUT_LEVEL:
            path.append(one_line(instance))
            yield ModuleLevel(".".join(path), one_line(call.module.class_name), path[-1])


def place_of(
    symbolication: Symbolication, levels_of: Callable[[Symbolication], Iterable[ModuleLevel]] = _levels_of
) -> OperationPlace:
    """The place that a symbolicated debug handle stands for.

    Args:
        levels_of: the modules that lead to it from the top module, without that.
    """
    if symbolication.missing:
        return replace(UNKNOWN_PLACE, hierarchy=one_line(str(symbolication)))
    hierarchy = one_line(symbolication.module_hierarchy)
    top = ModuleLevel(hierarchy.partition("::")[0], "")
    ranges = (frame.range for frame in reversed(symbolication.frames) if frame.range is not None)
    source, innermost = _innermost(line for span in ranges for line in lines_of(span))
    op = symbolication.entries[0].op
    return OperationPlace(
        (top, *levels_of(symbolication)),
        hierarchy,
        source,
        innermost,
        UNKNOWN_NAME if op is None else one_line(str(op)),
    )


def model_line(lines: Sequence[SourceLine]) -> SourceLine | None:
    """The innermost line that is not in PyTorch's source; the innermost one if all are."""
    return _innermost(lines)[0]


def _innermost(lines: Iterable[SourceLine]) -> tuple[SourceLine | None, SourceLine | None]:
    """The same, and the innermost line; the others are not looked at."""
    first = None
    for line in lines:
        first = first or line
        if not is_pytorchs(line.file):
            return line, first
    return first, first


def lines_of(span: SourceRange) -> list[SourceLine]:
    """The line where a range starts; all lines of a traced model's source, which is a Python call stack.

    Generated source has none.
    """
    return [line for line in _lines(span) if line.file not in ("", GENERATED_FILE)]


def stack_of(span: SourceRange) -> list[SourceLine]:
    """The lines of the Python call stack that a traced operation has as its source; none of others."""
    source = bytes(span.source.text)
    whole = span.end - span.start == len(source)
    calls = [CALL.fullmatch(one_line(line)) for line in decoded(source).splitlines()] if whole else []
    stack = [SourceLine(call["file"], int(call["line"]), call["function"]) for call in calls if call]
    return stack if len(stack) == len(calls) and all(line.text for line in stack) else []


def _lines(span: SourceRange) -> list[SourceLine]:
    if stack := stack_of(span):
        return stack
    if span.source.filename is None:
        return []
    source = bytes(span.source.text)
    text = source[source.rfind(b"\n", 0, span.start) + 1 :].partition(b"\n")[0]
    return [SourceLine(one_line(str(span.source.filename)), span.line, one_line(decoded(text).strip()))]
