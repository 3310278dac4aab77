"""Finds the module and the source lines that a debug handle stands for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.sites import SELF
from archive.debuginfo.source_lines import innermost_line, joint_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.debuginfo.source_lines import SourceLine
    from archive.debuginfo.symbolicate import Symbolication

UNKNOWN_NAME = "(unknown)"
NO_MODULES = "(no modules)"
NO_SOURCE = "(no source)"
NO_DELEGATE = "(no backend)"
INSTANCES_WITHOUT_LEVEL = frozenset({SELF, "__loweredModule__"})
"""Instances in call stacks that aren't a step of a module's path."""


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
    lines = innermost_line(symbolication.source_lines())
    op = symbolication.entries[0].op
    return OperationPlace(
        (top, *levels_of(symbolication)),
        hierarchy,
        lines.of_model,
        lines.first,
        UNKNOWN_NAME if op is None else one_line(str(op)),
    )
