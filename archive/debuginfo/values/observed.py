"""A run of a model: its operations in order, each with its place and a summary of each result."""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from archive.base.quick_dataclass import dataclass
from archive.debuginfo.profiles.places import NO_SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.debuginfo.profiles.places import OperationPlace

RowView: TypeAlias = Literal["line", "module", "operator"]
"""What a row of several operations stands for."""
Odd: TypeAlias = Literal["nan", "inf"]
"""What an element is that is no finite number."""
Hides: TypeAlias = Literal["nothing", "later"]
"""What attention hides of what it is given: of each position, what comes after it."""
SILENT = frozenset(
    [
        "aten::_assert_async",
        "aten::_assert_tensor_metadata",
        "aten::detach",
        "aten::lift_fresh_copy",
        "aten::size",
        "prim::device",
        "prim::dtype",
        "prim::layout",
    ]
)
"""Operators that some forms run and others do not, for no value of the model."""
UNSEEN = -(1 << 62)
"""Stands among the sources of an operation for others that ran before it without being seen."""
DEVICE = "ExecuTorch"
"""The form of a run that was noted on a device."""
LATER = "later runs"
"""What of :attr:`Observed.unseen` has no part in the values that are seen."""


class Kept(NamedTuple):
    """The place of a tensor's bytes in the file of kept values."""

    offset: int
    size: int


class Summary(NamedTuple):
    """A tensor in numbers.

    Attributes:
        shape: its sizes.
        dtype: of its elements: ``float32``.
        low: the smallest finite element; NaN if there is none.
        high: the largest one, likewise.
        mean: of the finite elements, likewise.
        std: their standard deviation around the mean, over all of them (divided by their number).
        zeros: how many elements are 0.
        nan: how many are not a number.
        inf: how many are infinite.
        digest: the first 8 bytes of SHA-256 of the elements in row-major order, as hexadecimal digits.
        kept: where its bytes are; None if values are not kept.
    """

    shape: tuple[int, ...]
    dtype: str
    low: float = nan
    high: float = nan
    mean: float = nan
    std: float = nan
    zeros: int = 0
    nan: int = 0
    inf: int = 0
    digest: str = ""
    kept: Kept | None = None


class Range(NamedTuple):
    """The range of a tensor that an operation was given, as it was before.

    Attributes:
        shape: its sizes.
        dtype: of its elements: ``float32``.
        low: the smallest finite element; NaN if there is none.
        high: the largest one, likewise.
        nan: how many are not a number.
        inf: how many are infinite.
    """

    shape: tuple[int, ...]
    dtype: str
    low: float
    high: float
    nan: int
    inf: int


class Unmasked(NamedTuple):
    """Attention without its mask, if that says what a flag could, or no mask.

    Attributes:
        hides: what it hides, by a mask or not.
        sources: as those of its operation, of its other arguments.
    """

    hides: Hides
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ObservedOperation:
    """An operation that ran.

    Attributes:
        number: its number in the run, from 0.
        op: the operator: ``aten::linear``.
        place: where the model calls it.
        key: its debug handle, or the name of its node in an exported program; None if its form has neither.
        visit: how often it ran before in this run, as in a loop.
        results: a summary of each tensor that it returned.
        inputs: the ranges of its arguments, where it is the first to make a NaN or an infinite number; where
            values are kept, of each operation that has one which no other operation gave it.
        sources: for each tensor that it was given, the numbers of the operations that wrote it or what it is
            a view of; of the model's inputs -1 for the first, -2 for the second; ``UNSEEN`` among them of
            what was not seen. () where they are not known.
        unmasked: what attention follows from, apart from a mask; None of all other operations.
        makers: for each of ``sources``, the number of the operation whose only result it is just as it was
            given, so that of a view; of an input as there, and ``UNSEEN`` where none is known. () where
            nothing is.
    """

    number: int
    op: str
    place: OperationPlace
    key: int | str | None
    visit: int
    results: tuple[Summary, ...]
    inputs: tuple[Range, ...] = ()
    sources: tuple[int, ...] = ()
    unmasked: Unmasked | None = None
    makers: tuple[int, ...] = ()

    @property
    def line(self) -> str:
        """The innermost line of the model's own code: ``models/net.py:57``."""
        source = self.place.source
        return NO_SOURCE if source is None else f"{source.file}:{source.number}"

    @property
    def handle(self) -> int | None:
        """Its debug handle; None without one."""
        return self.key if isinstance(self.key, int) else None

    def has(self, kind: Odd) -> bool:
        """Whether a result has a NaN or an infinite number."""
        return any(getattr(result, kind) for result in self.results)

    @property
    def node(self) -> str | None:
        """The name of its node in an exported program; None outside of programs."""
        return self.key if isinstance(self.key, str) else None


@dataclass(frozen=True, slots=True)
class ValueRow:
    """What operations of one line, module or operator computed.

    Attributes:
        name: ``file:line``, path of the module, or operator.
        text: the line's text, or the module's class.
        runs: how many operations ran.
        low: the smallest finite element of all results; NaN if there is none.
        high: the largest one, likewise.
        nan: how many elements are not a number.
        inf: how many are infinite.
        zeros: how many are 0.
        elements: how many there are.
    """

    name: str
    text: str
    runs: int
    low: float
    high: float
    nan: int
    inf: int
    zeros: int
    elements: int


@dataclass(slots=True)
class Observed:
    """The operations of a run.

    Attributes:
        form: what ran it: ``TorchScript``, ``lite interpreter``, ``exported program``, ``eager``,
            ``ExecuTorch``, ``AOTInductor``, or a backend: ``backend aten``.
        operations: in the order of the run.
        unseen: what ran without being seen, and how often.
        first_nan: the first operation that returned a NaN although no argument had one; None if none did.
        first_inf: the same of infinite numbers, which no argument asked for.
        outputs: a summary of each tensor that the model returned; None where they are not known.
        program: what identifies the program whose nodes are the operations' keys; "" if nothing does.
        inputs: a summary of each tensor that the model was given, where values are kept.
        output_sources: as ``sources`` of an operation, of the model's outputs.
        is_frozen: whether it is of a frozen module, whose layers may have batch normalisations folded into
            them.
        doubts: why noted values may be of another run than they are taken for.
        hidden: operations among ``unseen`` that are known to have run, at their places, without results; the
            number of each is that of the operation that was seen next.
    """

    form: str
    operations: list[ObservedOperation] = field(default_factory=list)
    unseen: Counter[str] = field(default_factory=Counter)
    first_nan: ObservedOperation | None = None
    first_inf: ObservedOperation | None = None
    outputs: tuple[Summary, ...] | None = ()
    program: str = ""
    inputs: tuple[Summary, ...] = ()
    output_sources: tuple[int, ...] = ()
    is_frozen: bool = False
    hidden: list[ObservedOperation] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def has_hidden(self) -> bool:
        """Whether anything has run unseen that may have to do with the values that are seen."""
        return bool(self.hidden) or self.has_hidden_elsewhere

    @property
    def has_hidden_elsewhere(self) -> bool:
        """Whether anything has run unseen that ``hidden`` does not list: branches, kernels of a device."""
        return sum(many for what, many in self.unseen.items() if what != LATER) > len(self.hidden)

    @property
    def has_nan(self) -> bool:
        """Whether any result has a NaN, whoever made it."""
        return any(result.nan for operation in self.operations for result in operation.results)

    def reaching(self, kind: Odd) -> list[ObservedOperation] | None:
        """The operations at which the NaNs or infinite numbers of the model's outputs begin, in their order.

        None where that is not known: values are not kept, or the outputs are not noted.
        """
        outputs, having = self.outputs, {each.number for each in self.operations if each.has(kind)}
        if outputs is None or not any(each.kept for each in outputs):
            return None
        is_odd = any(getattr(each, kind) for each in outputs)
        rest = [number for number in self.output_sources if number in having] if is_odd else []
        seen, found = {*rest}, list[int]()
        while rest:
            number = rest.pop()
            given = having.intersection(self.operations[number].sources)
            found += [] if given else [number]
            rest += given - seen
            seen |= given
        return [self.operations[number] for number in sorted(found)]

    def at(self, line: str) -> Iterator[ObservedOperation]:
        """The operations of a line: ``models/net.py:57``, or any end of that path."""
        for operation in self.operations:
            source = operation.place.source
            lines = () if source is None else (source, *source.more)
            if any(is_line(line, each.file, each.number) for each in lines):
                yield operation

    def rows_by(self, view: RowView) -> list[ValueRow]:
        """One row for each line, module or operator, in the order in which they first ran."""
        groups: dict[str, list[ObservedOperation]] = {}
        name_of = ROW_NAMES[view]
        for operation in self.operations:
            groups.setdefault(name_of(operation), []).append(operation)
        return [_row(name, view, found) for name, found in groups.items()]


class NotedOperation(NamedTuple):
    """An operation that ran, without its place; attributes are those of :class:`ObservedOperation`.

    Attributes:
        is_hidden: whether it was not seen.
    """

    op: str
    results: tuple[Summary, ...]
    inputs: tuple[Range, ...]
    sources: tuple[int, ...] = ()
    unmasked: Unmasked | None = None
    makers: tuple[int, ...] = ()
    is_hidden: bool = False


@dataclass(slots=True)
class NotedRun:
    """A run, before the places of its operations are looked up.

    Attributes:
        observed: what is known without them.
        operations: in the order of the run.
        first: the number of the first operation that made a ``nan`` or ``inf``.
        handles: the debug handle of each operation, where a backend's runtime gives it.
    """

    observed: Observed
    operations: list[NotedOperation] = field(default_factory=list)
    first: dict[str, int] = field(default_factory=dict)
    handles: list[int] = field(default_factory=list)

    def placed(self, places: Sequence[tuple[OperationPlace, int | str | None] | None]) -> Observed:
        """The run, with the place and key of each operation; operations without are left out."""
        observed, visits = replace(self.observed, operations=[], hidden=[]), Counter[object]()
        by_number: dict[int, ObservedOperation] = {}
        renumbered: dict[int, tuple[int, ...]] = {}  # an operation without a number stands for its sources

        def sources_of(numbers: tuple[int, ...]) -> tuple[int, ...]:
            return (*(new for old in numbers for new in renumbered.get(old, (old,))),)

        def maker_of(old: int) -> int:
            return old if old < 0 else by_number[old].number if old in by_number else UNSEEN

        for number, (noted, found) in enumerate(zip(self.operations, places, strict=True)):
            op, results, inputs, _, unmasked, _, _ = noted
            sources = sources_of(noted.sources)
            if noted.is_hidden and found is not None:
                hidden = ObservedOperation(len(observed.operations), op, *found, 0, ())
                observed.hidden.append(hidden)
            if found is None or op in SILENT or not results:
                renumbered[number] = (*dict.fromkeys(sources),)
                continue
            place, key = found
            visit = visits[place, key, op]
            visits[place, key, op] += 1
            if unmasked is not None:
                unmasked = unmasked._replace(sources=sources_of(unmasked.sources))
            makers = (*map(maker_of, noted.makers),)
            made = ObservedOperation(
                len(observed.operations), op, place, key, visit, results, inputs, sources, unmasked, makers
            )
            renumbered[number] = (made.number,)
            by_number[number] = made
            observed.operations.append(made)
        observed.output_sources = sources_of(observed.output_sources)
        observed.first_nan, observed.first_inf = (
            by_number.get(self.first.get(kind, -1)) for kind in ("nan", "inf")
        )
        return observed


ROW_NAMES: dict[RowView, Callable[[ObservedOperation], str]] = {
    "line": lambda operation: operation.line,
    "module": lambda operation: operation.place.module,
    "operator": lambda operation: operation.op,
}
"""The name of the row that an operation belongs to."""


def is_line(asked: str, file: str, number: int) -> bool:
    """Whether a line is the one that is asked for, by its file's whole path or the end of it.

    >>> is_line("net.py:57", "/home/ann/models/net.py", 57), is_line("et.py:57", "models/net.py", 57)
    (True, False)
    """
    path, _, digits = asked.rpartition(":")
    return digits == str(number) and (file == path or file.endswith("/" + path))


def _row(name: str, view: RowView, operations: Sequence[ObservedOperation]) -> ValueRow:
    results = [result for operation in operations for result in operation.results]
    return ValueRow(
        name,
        _text(view, operations[0].place),
        len(operations),
        min(_finite(result.low for result in results), default=nan),
        max(_finite(result.high for result in results), default=nan),
        sum(result.nan for result in results),
        sum(result.inf for result in results),
        sum(result.zeros for result in results),
        sum(elements(result.shape) for result in results),
    )


def _text(view: RowView, place: OperationPlace) -> str:
    if view == "line":
        return place.source.words if place.source else ""
    return place.levels[-1].type if view == "module" else ""


def _finite(numbers: Iterable[float]) -> Iterator[float]:
    return (number for number in numbers if isfinite(number))


def elements(shape: Sequence[int]) -> int:
    """How many elements a shape has."""
    count = 1
    for size in shape:
        count *= size
    return count
