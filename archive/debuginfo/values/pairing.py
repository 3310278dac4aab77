"""Finds the operations of two runs that compute the same value of the model.

Two forms of one model rarely run the same operators: exporting decomposes some, quantising fuses others, and
layout operations (``view``, ``t``, ``clone``) come and go, which compute nothing and are left out. Operators
of one *family* compute the same: ``addmm`` and ``linear``. What belongs together is found in these steps,
each among the operations that the steps before it left:

1. *module*: the nth of a family in a module, where both runs have it equally often with equal sizes. It needs
   no lines: non-strict export gives helper functions the line of their caller.
2. *text*: the same of a line's text, which stays where lines move; *line*: the nth of a family at a line of a
   module.
3. *between*: the nth of a family in a module and between two pairs that are neighbours in both runs, as in
   step 1. If one run then has a single operation there, the other may have *decomposed* it (see below).
4. *line without module*, *innermost line*: the nth of a family at a line of the model, or of PyTorch's own
   source, which is all that a frozen archive knows. Both have it equally often with equal sizes, as above.
5. *order*: the nth of a family in the whole run, likewise.
6. *end of line*, *end of module*: one run has n operations there, the other a multiple of n. The last one of
   each share computes what the one of the other run does; those before it are inside of it: used by it and
   each other only, and of other families. Of a single operation (*decomposed*) this is sure if its share is
   of one line, of which nothing is left after it, both results have the same last sizes, and neither only
   rounds; by the number of a line, which may be another one's in the other run, only if its text is the same,
   or nothing else is left of the module. Both follow from something that both runs have.

Two runs of one program need none of this: the operations of a node belong together (:func:`by_node`).

The other pairs of step 6 are weak: what lies before the last one may have another order.

One run may have *folded* into a layer what directly follows it in the other one: a batch normalisation,
``relu`` (``quantized::conv2d_relu``), or the bias, where ``linear`` is ``mm`` and ``add``. The layer's value
is then that of the last of them, and a fault may be at the line of each.

A run may have operations that are known to have run, but were not seen: they are *hidden*. The nth of a key
counts them, so what the other run has in the place of one is neither paired with another one nor left. What
a key has of hidden operations that nothing of the other run belongs to is not paired by it; and where
anything else ran unseen, only keys that both have equally often are.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from archive.base.quick_dataclass import dataclass
from archive.debuginfo.values.families import (
    LAYERS,
    NORM,
    ROUNDING,
    WITH_RELU,
    computes,
    family,
    is_computing,
)
from archive.debuginfo.values.flow import Flow
from archive.debuginfo.values.observed import UNSEEN, elements

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Sequence

    from archive.debuginfo.source_lines import SourceLine
    from archive.debuginfo.values.observed import Observed, ObservedOperation

How: TypeAlias = Literal[
    "node",
    "module",
    "text",
    "line",
    "between",
    "decomposed",
    "end of line",
    "end of module",
    "line without module",
    "innermost line",
    "order",
    "extra",
    "extra in the base",
    "perhaps extra",
    "perhaps extra in the base",
]
WEAK: frozenset[How] = frozenset(
    {"end of line", "end of module", "perhaps extra", "perhaps extra in the base"}
)
EXTRA: tuple[tuple[How, How], tuple[How, How]] = (
    ("extra", "perhaps extra"),
    ("extra in the base", "perhaps extra in the base"),
)
"""Of an operation that only the run or only its base has, beside what the other has in its place."""


class Pair(NamedTuple):
    """Two operations that compute the same value.

    Attributes:
        how: the step that found them.
        layer: of the run that computes them one by one, the layer that the other has folded its operation
            into; None if nothing is folded.
    """

    mine: ObservedOperation
    base: ObservedOperation
    how: How
    layer: ObservedOperation | None = None

    @property
    def is_weak(self) -> bool:
        """Whether it may be a neighbour that computes the same value."""
        return self.how in WEAK

    @property
    def extra(self) -> ObservedOperation | None:
        """The operation, if only one of the runs has it; the other is what it is compared with."""
        sides = zip(EXTRA, (self.mine, self.base), strict=True)
        return next((operation for hows, operation in sides if self.how in hows), None)


@dataclass(slots=True)
class Pairs:
    """The operations of two runs, side by side.

    Attributes:
        pairs: in the order of the first run.
        inside: how many operations of each run are inside of one of the other.
        left: operations of each run that belong to none of the other.
        layout: how many of each run compute nothing.
        hidden: operations of each run that the other one ran without their being seen.
        is_open: whether what is left of each run may have run in the other without being seen.
    """

    pairs: list[Pair] = field(default_factory=list)
    inside: tuple[int, int] = (0, 0)
    left: tuple[list[ObservedOperation], list[ObservedOperation]] = field(default_factory=lambda: ([], []))
    layout: tuple[int, int] = (0, 0)
    hidden: tuple[list[ObservedOperation], list[ObservedOperation]] = field(default_factory=lambda: ([], []))
    is_open: tuple[bool, bool] = (False, False)


def by_node(mine: Observed, base: Observed) -> Pairs:
    """The operations of two runs of one program, side by side: those of each node, in their order."""
    partners = {(one.key, one.visit): one for one in base.operations}
    pairs: list[Pair] = []
    left: list[ObservedOperation] = []
    for one in mine.operations:
        partner = None if one.key is None else partners.pop((one.key, one.visit), None)
        if partner is None:
            left.append(one)
        else:
            pairs.append(Pair(one, partner, "node"))
    done = {pair.base.number for pair in pairs}
    rest = left, [one for one in base.operations if one.number not in done]
    computing = tuple([*filter(computes, operations)] for operations in rest)
    layout = tuple(len(every) - len(some) for every, some in zip(rest, computing, strict=True))
    made = Pairs(pairs, (0, 0), (computing[0], computing[1]), (layout[0], layout[1]))
    made.is_open = base.has_hidden, mine.has_hidden
    return made


def paired(mine: Observed, base: Observed) -> Pairs:
    """The operations of two runs of forms of one model, side by side."""
    pairing = _Pairing(mine, base)
    for key in (_by_module, _by_text, _by_line, _by_line_alone, _by_family):
        pairing.unseen(key)
    pairing.nth(_by_module, "module", whole=True)
    pairing.nth(_by_text, "text", whole=True)
    pairing.nth(_by_line, "line", whole=False)
    pairing.between()
    pairing.nth(_by_line_alone, "line without module", whole=True)
    pairing.nth(lambda one: (one.innermost, one.family), "innermost line", whole=True)
    pairing.nth(_by_family, "order", whole=True)
    pairing.ends(lambda one: (one.line, one.module), "end of line")
    pairing.ends(lambda one: one.module, "end of module")
    return pairing.result()


class _Computed(NamedTuple):
    """An operation that computes, by what it is found by.

    Attributes:
        around: the numbers of the pairs before and after it; None where one of them is missing.
    """

    operation: ObservedOperation
    family: str
    line: Hashable
    innermost: Hashable
    module: str
    layer: ObservedOperation | None = None
    around: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        source = self.operation.place.source
        return "" if source is None else source.text

    @property
    def size(self) -> int:
        return elements(self.operation.results[0].shape)

    @property
    def is_hidden(self) -> bool:
        return not self.operation.results


def _by_module(one: _Computed) -> Hashable:
    return one.module, one.family


def _by_text(one: _Computed) -> Hashable:
    return one.text, one.module, one.family


def _by_line(one: _Computed) -> Hashable:
    return one.line, one.module, one.family


def _by_line_alone(one: _Computed) -> Hashable:
    return one.line, one.family


def _by_family(one: _Computed) -> Hashable:
    return one.family


_By = dict["Hashable", list[_Computed]]


class _Pairing:
    """The state of :func:`paired`: what is left of both runs, and the pairs so far."""

    def __init__(self, *runs: Observed) -> None:
        operations = [run.operations for run in runs]
        computed = [_computed(each, computes) for each in operations]
        self._hidden = [_computed(run.hidden, lambda one: is_computing(one.op)) for run in runs]
        self._all = [len(every) - len(some) for every, some in zip(operations, computed, strict=True)]
        others = [[*some, *hidden] for some, hidden in zip(computed, self._hidden, strict=True)]
        self._left = [_folded(computed[0], others[1]), _folded(computed[1], others[0])]
        self._inside = [len(all_) - len(left) for all_, left in zip(computed, self._left, strict=True)]
        self._runs, self._observed = operations, runs
        self._flows = [Flow(each, (), computes) for each in operations]
        self._families: list[set[str]] = [set(), set()]
        self._pairs: list[Pair] = []
        self._unseen: list[list[ObservedOperation]] = [[], []]

    def unseen(self, key: Callable[[_Computed], Hashable]) -> None:
        """Find what the runs have in the place of the other's hidden operations: the nth of the same key."""
        done: tuple[set[int], set[int]] = set(), set()
        found: list[_Computed] = []
        groups = [
            _grouped(sorted([*hidden, *left], key=_in_order), key)
            for hidden, left in zip(self._hidden, self._left, strict=True)
        ]
        for name, mine in groups[0].items():
            base = groups[1].get(name, [])
            if len(mine) != len(base) or not all(map(_may_fit, mine, base)):
                continue
            for side, pair in [
                *((0, pair) for pair in zip(mine, base, strict=True)),
                *((1, pair) for pair in zip(base, mine, strict=True)),
            ]:
                one, other = pair
                if one.is_hidden:
                    found.append(one)
                elif other.is_hidden:
                    self._unseen[side].append(one.operation)
                    done[side].add(one.operation.number)
        self._hidden = [
            [one for one in hidden if not any(one is each for each in found)] for hidden in self._hidden
        ]
        self._drop(done)

    def nth(self, key: Callable[[_Computed], Hashable], how: How, *, whole: bool) -> None:
        """Pair the nth operations that have the same key, if their results have equally many elements.

        Args:
            whole: only where all operations of this key do.
        """
        done: tuple[set[int], set[int]] = set(), set()
        whole = whole or any(map(self._is_open, (0, 1)))
        for mine, base in self._groups(key):
            if whole and [one.size for one in mine] != [one.size for one in base]:
                continue
            for one, other in zip(mine, base, strict=False):
                if one.size == other.size:
                    self._pair(one, other, how, done)
        self._drop(done)

    def _is_open(self, side: int) -> bool:
        """Whether what is left of a run may have run in the other without being seen."""
        return bool(self._hidden[1 - side]) or self._observed[1 - side].has_hidden_elsewhere

    def between(self) -> None:
        """Pair what lies in one module between two pairs that are neighbours in both runs."""
        self._find_neighbours()
        self.nth(lambda one: one.around and (one.around, one.module, one.family), "between", whole=True)
        self._find_neighbours()
        self.ends(lambda one: one.around and (one.around, one.module), None)

    def _find_neighbours(self) -> None:
        sides = zip(*((pair.mine.number, pair.base.number) for pair in self._pairs), strict=True)
        for side, numbers in enumerate(sides):
            pairs = sorted(zip(numbers, range(len(numbers)), strict=True))
            for at, one in enumerate(self._left[side]):
                after = bisect(pairs, (one.operation.number,))
                is_inside = 0 < after < len(pairs)
                around = (pairs[after - 1][1], pairs[after][1]) if is_inside else None
                self._left[side][at] = one._replace(around=around)

    def ends(self, key: Callable[[_Computed], Hashable], how: How | None) -> None:
        """Pair each of n operations with the last of its share of the m x n of the other run.

        Args:
            how: of pairs that are not sure; None to have none of them.
        """
        done: tuple[set[int], set[int]] = set(), set()
        follow_alike = self._following()
        self._families = [{one.family for one in left} for left in self._left]
        for mine, base in self._groups(key):
            few, many = sorted((len(mine), len(base)))
            if many % few:
                continue
            share, side = many // few, int(len(base) > few)
            sides = [group[share - 1 :: share] if len(group) > few else group for group in (mine, base)]
            for at, (one, other) in enumerate(zip(*sides, strict=True)):
                inside = (mine, base)[side][at * share : (at + 1) * share - 1]
                if not (_fit(one, other, alone=share == 1) and follow_alike(one, other)):
                    continue
                is_of_line = all(each.line == sides[side][at].line for each in inside)
                is_known = how is None or (one.text == other.text != "") or self._is_rest(mine, base)
                is_whole = is_of_line and not self._goes_on(side, sides[side][at])
                is_sure = few == 1 and is_whole and is_known and _is_sure(one, other)
                found = "decomposed" if is_sure else how
                if found is None or not self._is_decomposed(one, other, side, inside):
                    continue
                self._pair(one, other, found, done)
                done[side].update(each.operation.number for each in inside)
                self._inside[side] += len(inside)
        self._drop(done)

    def _goes_on(self, side: int, last: _Computed) -> bool:
        """Whether operations of its line are left after an operation: then it isn't the last of a share."""
        return any(
            one.line == last.line
            and one.module == last.module
            and one.operation.number > last.operation.number
            for one in self._left[side]
        )

    def _is_rest(self, mine: Sequence[_Computed], base: Sequence[_Computed]) -> bool:
        """Whether groups are all that is left of their module in both runs."""
        rest = ([one for one in left if one.module == mine[0].module] for left in self._left)
        return [*map(len, rest)] == [len(mine), len(base)]

    def _is_decomposed(
        self, one: _Computed, other: _Computed, side: int, inside: Sequence[_Computed]
    ) -> bool:
        """Whether an operation may be decomposed into a share in the run on a side.

        What is inside is used there alone, and no other operation of that run is of the family.

        Args:
            inside: the share without its last operation.
        """
        last, whole = (one, other) if side == 0 else (other, one)
        if not self._flows[side].is_within({each.operation.number for each in inside}, last.operation.number):
            return False
        if last.family == whole.family:
            return all(each.family != whole.family for each in inside)
        has_other = not inside and last.family in self._families[1 - side]
        return not has_other and whole.family not in self._families[side]

    def _following(self) -> Callable[[_Computed, _Computed], bool]:
        """Whether operations follow from a value that both runs have, as far as is known."""
        numbers = [{pair.mine.number: at for at, pair in enumerate(self._pairs)}]
        numbers.append({pair.base.number: at for at, pair in enumerate(self._pairs)})
        flows = [
            Flow(run, (), partial(_is_among, known)) for run, known in zip(self._runs, numbers, strict=True)
        ]

        def follow_alike(*both: _Computed) -> bool:
            mine, base = (
                {known[number] if number >= 0 else number for number in flow.taken[one.operation.number]}
                for one, flow, known in zip(both, flows, numbers, strict=True)
            )
            return not (mine and base and mine.isdisjoint(base)) or UNSEEN in mine | base

        return follow_alike

    def result(self) -> Pairs:
        """All that was found."""
        mine, base = ([one.operation for one in left] for left in self._left)
        pairs = sorted(self._pairs, key=lambda pair: pair.mine.number)
        return Pairs(
            pairs,
            (self._inside[0], self._inside[1]),
            (mine, base),
            (self._all[0], self._all[1]),
            (self._unseen[0], self._unseen[1]),
            (self._is_open(0), self._is_open(1)),
        )

    def _groups(
        self, key: Callable[[_Computed], Hashable]
    ) -> Iterable[tuple[list[_Computed], list[_Computed]]]:
        """What is left of both runs under each key that both have, and nothing hidden; None is no key."""
        mine, base = _grouped(self._left[0], key), _grouped(self._left[1], key)
        without = {None, *(key(one) for hidden in self._hidden for one in hidden)}
        return [(group, base[name]) for name, group in mine.items() if name in base and name not in without]

    def _pair(self, one: _Computed, other: _Computed, how: How, done: tuple[set[int], set[int]]) -> None:
        self._pairs.append(Pair(one.operation, other.operation, how, one.layer or other.layer))
        done[0].add(one.operation.number)
        done[1].add(other.operation.number)

    def _drop(self, done: tuple[set[int], set[int]]) -> None:
        self._left = [
            [one for one in left if one.operation.number not in numbers]
            for left, numbers in zip(self._left, done, strict=True)
        ]


def _is_among(numbers: Container[int], one: ObservedOperation) -> bool:
    return one.number in numbers


def _fit(one: _Computed, other: _Computed, *, alone: bool) -> bool:
    """Whether the last operations of two shares may have the same value."""
    if one.size != other.size:
        return False
    shapes = one.operation.results[0].shape, other.operation.results[0].shape
    return not alone or one.family == other.family or shapes[0] == shapes[1]


def _is_sure(one: _Computed, other: _Computed) -> bool:
    """Whether the only operation that one run has left and the last of the other's compute the same."""
    shapes = one.operation.results[0].shape, other.operation.results[0].shape
    # ``bmm`` and ``addmm`` have merged the dimensions before those that they compute with.
    last = min(map(len, shapes)) - 1
    is_same = all(sizes[len(sizes) - last :] == shapes[0][len(shapes[0]) - last :] for sizes in shapes)
    return is_same and ROUNDING.isdisjoint((one.family, other.family))


def _in_order(one: _Computed) -> tuple[int, bool]:
    """What sorts operations of a run and hidden ones as they ran."""
    return one.operation.number, not one.is_hidden


def _may_fit(one: _Computed, other: _Computed) -> bool:
    """Whether two operations may have results of equally many elements."""
    return one.is_hidden or other.is_hidden or one.size == other.size


def _computed(
    operations: Iterable[ObservedOperation], is_wanted: Callable[[ObservedOperation], bool]
) -> list[_Computed]:
    made = []
    for operation in operations:
        if is_wanted(operation):
            place = operation.place
            module = place.module if len(place.levels) > 1 else ""
            line, innermost = _line(place.source), _line(place.innermost)
            made.append(_Computed(operation, family(operation.op), line, innermost, module))
    return made


def _line(line: SourceLine | None) -> Hashable:
    """A line as forms of one model have it in common: their folders may differ."""
    return None if line is None else (line.file.rpartition("/")[2], line.number)


def _folded(operations: Sequence[_Computed], others: Sequence[_Computed]) -> list[_Computed]:
    """Operations without those that the other run has folded into the layer before, which has their value."""
    folds = _norms(operations, others)
    fused = _with_relu(others) - _with_relu(operations)
    added = {one.module for one in others if one.family == "add"}
    made: list[_Computed] = []
    for one in operations:
        before = made[-1] if made else None
        if before is not None and (
            one.operation.number in folds
            or (one.family == "relu" and fused[before.module, before.family])
            or (one.family == "add" and _is_bias(one, before) and one.module not in added)
        ):
            made[-1] = before._replace(operation=one.operation, layer=before.layer or before.operation)
        else:
            made.append(one)
    return made


def _with_relu(operations: Iterable[_Computed]) -> Counter[tuple[str, str]]:
    """How many operators of a module and family compute ``relu``, too."""
    fused = (one for one in operations if one.operation.op.endswith(WITH_RELU))
    return Counter((one.module, one.family) for one in fused)


def _is_bias(one: _Computed, before: _Computed) -> bool:
    is_product = before.operation.op.endswith("::mm")
    return is_product and (one.module, one.line, one.size) == (before.module, before.line, before.size)


def _norms(operations: Sequence[_Computed], others: Sequence[_Computed]) -> set[int]:
    """The numbers of the batch normalisations that the other run has folded, if it has so many fewer.

    They are all that directly follow a layer, or those of modules where the other run has none.
    """
    norms = [one for one in operations if one.family == NORM]
    others_norms = [one for one in others if one.family == NORM]
    after = [one for before, one in pairwise(operations) if one.family == NORM and before.family in LAYERS]
    kept = {one.module for one in others_norms}
    for found in (after, [one for one in after if one.module not in kept]):
        if len(found) == len(norms) - len(others_norms):
            return {one.operation.number for one in found}
    return set()


def _grouped(operations: Iterable[_Computed], key: Callable[[_Computed], Hashable]) -> _By:
    groups: _By = defaultdict(list)
    for one in operations:
        groups[key(one)].append(one)
    return groups
