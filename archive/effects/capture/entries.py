"""Captures a method of a module: the graph of what it computes, and the table of what it changes.

The method is called with proxies of everything that it can change. The call is repeated until it shows no
new change: numbers that calls write are then inputs of the graph, and lists that calls change have symbolic
length.

Several *entries* describe a method that does not do the same in each state: each is a graph and a table with
guards on the state. The first entries are those of the example calls, each from the state that the one before
leaves; then the same calls again, until they bring nothing new. So the first call, which fills a cache, is
one entry, and all others are another. Then, where an entry has decided by a number or a length, a state is
sought in which it decides otherwise, and played from there. Two entries never fit together: their guards tell
them apart, or the model is refused.

Reads of anything but tensors' elements and values that calls write become guards: shapes, types, arguments,
attributes, globals. Each guard names the model's statement that relies on it. Sizes, and numbers that are
arguments, are numbers of the graph as long as they only flow into other numbers.

Values before the first call are read from the real objects, whatever calls have put in their places since.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.capture.attempt import Attempt, attempt
from archive.effects.capture.graph.guards import copied
from archive.effects.capture.graph.sites import error_at
from archive.effects.capture.graph.variables import SOURCES
from archive.effects.capture.initial import initial_state, originals_of
from archive.effects.capture.next_states import (
    decides_by_results,
    decisions_of,
    snapshot_after,
    state_for_other,
)
from archive.effects.capture.table.call import SeenChanges, Snapshot
from archive.effects.errors import CaptureError, ModelFailedError
from archive.effects.looking import same_literal, type_name
from archive.formats.effects.model import At, Attribute, Computed, Constant, Each, Item, Length, Look, Output
from archive.formats.effects.parts import reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from archive.debuginfo.sites import Site
    from archive.effects.capture.graph.guards import Assumption
    from archive.effects.capture.table.side_effects import SideEffects
    from archive.formats.effects.model import Source


# --- comparing

UNCOMPARED = (Look.RANGE, Look.SAME, Look.APART)
"""Looks whose values may differ, though both guards hold."""


FOLLOWING: dict[tuple[Look, Look], Callable[[Any, Any], object]] = {
    (Look.EQUAL, Look.TYPE): lambda value, _: type_name(value),
    (Look.EQUAL, Look.IS_NONE): lambda value, _: value is None,
    (Look.EQUAL, Look.TEXT): lambda value, _: str(value),
    (Look.TYPE, Look.IS_NONE): lambda value, _: value == "NoneType",
    (Look.KEYS, Look.HAS): lambda value, key: any(same_literal(one, key) for one in value),
    (Look.KEYS, Look.LENGTH): lambda value, _: len(value),
}
"""The value of a look that follows from another look's value and the key."""


def difference(first: Attempt, second: Attempt) -> list[Site] | None:
    """The sites where two calls differ first; None if they are the same."""
    one, other = first.flat, second.flat
    nodes, others = list(first.graph.graph.nodes), list(second.graph.graph.nodes)
    for number, (mine, its) in enumerate(zip_longest(nodes, others)):
        if mine is None or its is None or _shown(mine) != _shown(its):
            behind = [*nodes[number:], *others[number:]]
            sites = [node.meta["site"] for node in behind if "site" in node.meta]
            return [*sites, *one.sites, *other.sites]
    for before, after in zip_longest(one.effects.effects, other.effects.effects):
        if before != after:
            places = ((one, before), (other, after))
            return [side.sites[effect.handle] for side, effect in places if effect and effect.handle >= 0]
    for mine, its in zip_longest(one.effects.guards, other.effects.guards):
        if mine != its:
            sides = ((one, mine), (other, its))
            return [side.guard_sites[guard.handle] for side, guard in sides if guard and guard.handle >= 0]
    return None if one.effects == other.effects else []


def _shown(node: Any) -> tuple[str, ...]:  # noqa: ANN401
    return node.op, str(node.target), str(node.args), str(node.kwargs), str(node.type)


class Fact(NamedTuple):
    """A guard, with a subject that is the same in all calls that look at the same number."""

    look: Look
    subject: object
    value: Any
    key: Any


def excluding(first: Attempt, second: Attempt) -> Assumption | None:
    """A guard of the first call that never holds together with those of the second; None without one."""
    numbers: dict[Any, int] = {}
    theirs = list(_facts(second, numbers))
    for guard, mine in zip(first.call.side_effects.guards, _facts(first, numbers), strict=False):
        if any(_contradict(mine, its) or _contradict(its, mine) for its in theirs):
            return guard
    return None


def _facts(one: Attempt, numbers: dict[Any, int]) -> Iterator[Fact]:
    """The guards of a call; numbers of the graph are known by the operations that make them."""
    known: dict[Any, int] = {}
    for node in one.graph.graph.nodes:
        parts = tuple(known[each] for each in node.all_input_nodes)
        known[node] = numbers.setdefault((*_shown(node), parts), len(numbers))
    facts = list(_own_facts(one, known))
    yield from facts
    for fact in facts:
        if fact.look is Look.SAME and isinstance(fact.value, At):
            yield from (
                each._replace(subject=fact.subject) for each in facts if each.subject == fact.value.source
            )


def _own_facts(one: Attempt, known: Mapping[Any, int]) -> Iterator[Fact]:
    for guard in one.flat.effects.guards:
        value = guard.value.value if isinstance(guard.value, Constant) else guard.value
        key = guard.key.value if isinstance(guard.key, Constant) else None
        subject: object = guard.subject.source if isinstance(guard.subject, At) else guard.subject
        if isinstance(subject, Output):
            subject = known[one.flat.outputs[subject.index]]
        yield Fact(guard.look, subject, value, key)


def _contradict(one: Fact, other: Fact) -> bool:
    """Whether two guards never hold together; one of the two orders tells."""
    if one.subject == other.subject and type(one.subject) is type(other.subject):
        if one.look is other.look:
            comparable = one.look not in UNCOMPARED and same_literal(one.key, other.key)
            return comparable and not same_literal(one.value, other.value)
        follows = FOLLOWING.get((one.look, other.look))
        return follows is not None and follows(one.value, other.key) != other.value
    return isinstance(one.subject, SOURCES) and any(
        _is_missing(one, source) for source in _chain(other.subject)
    )


def _is_missing(one: Fact, source: Source) -> bool:
    """Whether a guard says that a place is not there."""
    if not isinstance(source, Attribute | Item) or source.base != one.subject:
        return False
    if isinstance(source, Attribute):
        return one.look is Look.ATTRIBUTE and one.key == source.name and not one.value
    if one.look is Look.HAS:
        return same_literal(one.key, source.key) and not one.value
    if one.look is Look.KEYS:
        return not any(same_literal(key, source.key) for key in one.value)
    is_index = one.look is Look.LENGTH and type(source.key) is int
    return is_index and not -one.value <= source.key < one.value


def _chain(subject: object) -> Iterator[Source]:
    """The places that a guard looks at: its subject's, and those that these are in."""
    left: list[Any] = list(reads(subject)) if isinstance(subject, Computed) else [subject]
    while left:
        source = left.pop()
        if isinstance(source, SOURCES):
            yield source
        if isinstance(source, Attribute | Item | Length | Each):
            left.append(source.base)


# --- entries

AGAIN = "a second call, from where the first one ends, does something else"
MORE_ROUNDS = 16
"""Rounds of one call after the steady state, where sizes of results may still lead to another arm."""
Arguments = tuple[Any, ...]


class GrownError(Exception):
    """A call has shown changes that earlier calls did not know of."""


class UnclearError(CaptureError):
    """Two calls differ, and no guard tells them apart."""


@dataclass(slots=True)
class Arm:
    """One way through a method.

    Attributes:
        first: the call that showed it first.
        latest: the latest such call.
        arguments: of the latest call.
    """

    first: Attempt
    latest: Attempt
    arguments: Arguments


class Entries:
    """Finds the entries of a method.

    Args:
        module: the model, which stays as it is.
        method: its method.
        calls: arguments of the example calls.
        most: entries.
        lasting: whether the only entry must be for all states that calls leave.
    """

    def __init__(
        self,
        module: Any,  # noqa: ANN401
        method: str,
        calls: Sequence[Arguments],
        most: int,
        *,
        lasting: bool = False,
    ) -> None:
        self._module, self._method, self._calls = module, method, calls
        self._most, self._lasting, self._found = most, lasting, SeenChanges()
        self._entries: list[Arm] = []
        self._tried: set[tuple[Any, ...]] = set()
        self._snapshot = Snapshot()

    def find(self) -> list[Attempt]:
        """The first call of each entry.

        Raises:
            CaptureError: the method cannot be captured, or not with so many entries.
        """
        while True:
            self._entries, self._tried, self._snapshot = [], set(), Snapshot()
            try:
                self._play_examples()
                for arguments in self._calls[1:]:
                    self._try(arguments, Snapshot())  # each example from the state at first
                self._play_other_arms()
                self._play_on()
            except GrownError:
                continue
            return [entry.first for entry in self._entries]

    # --- ways to call ------------------------------------------------------------------------------

    def _play_examples(self) -> None:
        """The example calls one after the other, and again until they show nothing new."""
        snapshot = Snapshot()
        for number, arguments in enumerate(self._calls):
            given = arguments if number == 0 else fresh(arguments)
            snapshot = self._after(given, snapshot, again=number > 0)
        count = len(self._entries)
        try:
            snapshot = self._round(snapshot)
        except ModelFailedError as error:
            raise _again(error) from error
        if len(self._entries) > count:
            try:
                snapshot = self._repeat(snapshot)
            except ModelFailedError:
                return  # as the model itself would; a call from there fits no entry
        self._snapshot = snapshot

    def _play_other_arms(self) -> None:
        """Calls from states in which entries decide otherwise."""
        while len(self._entries) < self._most:
            found = self._other_arm()
            if found is None:
                return
            self._try(*found)

    def _other_arm(self) -> tuple[Arguments, Snapshot] | None:
        """Arguments and state for an arm that no entry has taken; None if none is found."""
        for entry in self._entries:
            decisions = decisions_of(entry.latest)
            for number, (subject, value) in enumerate(decisions):
                path = (*decisions[:number], (subject, not value))
                taken = (tuple(decisions_of(one.first)[: number + 1]) for one in self._entries)
                if path in self._tried or path in taken:
                    continue
                snapshot = state_for_other(entry.latest, number)
                if snapshot is not None:
                    self._tried.add(path)
                    return entry.arguments, snapshot
        return None

    def _try(self, arguments: Arguments, snapshot: Snapshot) -> None:
        """Play from a state that later calls may meet; an arm that cannot be captured is left out.

        A call that takes such an arm fits no entry.
        """
        try:
            self._repeat(self._after(fresh(arguments), snapshot))
        except UnclearError:
            raise
        except CaptureError:
            return

    def _repeat(self, snapshot: Snapshot) -> Snapshot:
        """Rounds of the example calls until they show nothing new."""
        count = -1
        while count < len(self._entries):
            count = len(self._entries)
            snapshot = self._round(snapshot)
        return snapshot

    def _round(self, snapshot: Snapshot) -> Snapshot:
        for arguments in self._calls:
            snapshot = self._after(fresh(arguments), snapshot, again=True)
        return snapshot

    def _play_on(self) -> None:
        """More rounds where entries decide by sizes of results: no single number leads to the other arm."""
        if not any(decides_by_results(entry.first) for entry in self._entries):
            return
        try:
            for _ in range(max(1, MORE_ROUNDS // len(self._calls))):
                self._snapshot = self._round(self._snapshot)
        except UnclearError:
            raise
        except CaptureError:
            return

    # --- one call ----------------------------------------------------------------------------------

    def _after(self, arguments: Arguments, snapshot: Snapshot, *, again: bool = False) -> Snapshot:
        """The state after a call, whose entry is noted."""
        found = self._found
        size, in_place = found.size(), len(found.in_place)
        try:
            one = attempt(self._module, self._method, arguments, snapshot, found)
        except CaptureError as error:
            found.copies.check()
            if isinstance(error, ModelFailedError) or not again:
                raise
            raise _again(error) from error
        finally:
            # A tensor that only this call changes in place may be a part of the graphs of earlier entries.
            if found.size() > size or (self._entries and len(found.in_place) > in_place):
                raise GrownError
        self._note(one, arguments)
        return snapshot_after(one.call)

    def _note(self, one: Attempt, arguments: Arguments) -> None:
        """Note the entry of a call.

        Raises:
            UnclearError: it is like no entry, and an entry's guards may hold as well.
            CaptureError: it is one too many, or does not last.
        """
        needed = (guard for guard in one.call.side_effects.guards if self._lasting and guard.reason)
        for guard in needed:
            raise error_at(guard.reason, guard.statement)
        for entry in self._entries:
            if difference(entry.first, one) is None:
                entry.latest, entry.arguments = one, arguments
                return
        telling: Assumption | None = None
        for entry in self._entries:
            telling = excluding(one, entry.first)
            if telling is None or self._most == 1:
                raise _unclear(difference(entry.first, one) or [])
        if telling is not None and len(self._entries) == self._most:
            message = f"{telling.reason or AGAIN}; {self._most} tables are not enough"
            raise error_at(message, telling.statement)
        self._entries.append(Arm(one, one, arguments))


def _again(error: CaptureError) -> CaptureError:
    """The error of a call that is not the first."""
    kind = type(error)
    if error.message.startswith(AGAIN):
        return error
    return kind(f"{AGAIN}: {error.message}", error.filename, error.line)


def _unclear(sites: Iterable[Site]) -> UnclearError:
    """An error at the first of some sites that has a line."""
    span = next((site.span for site in sites if site.span is not None), None)
    if span is None:
        return UnclearError(AGAIN)
    return UnclearError(AGAIN, span.filename.decode("utf-8", "surrogateescape"), span.first_line)


def fresh(value: Any, known: dict[int, Any] | None = None) -> Any:  # noqa: ANN401
    """A copy with tensors of its own; equal identities stay equal."""
    known = {} if known is None else known
    if id(value) not in known:
        made = value
        if isinstance(value, torch.Tensor):
            made = copied(value)
        elif type(value) in (tuple, list):
            made = type(value)(fresh(one, known) for one in value)
        elif type(value) is dict:
            made = {key: fresh(one, known) for key, one in value.items()}
        known[id(value)] = made
    return known[id(value)]


MOST_ENTRIES = 8
"""Entries of a method, unless more are allowed."""


class Captured(NamedTuple):
    """A captured method, or one of its entries.

    Attributes:
        graph: what the method computes: a ``torch.fx.GraphModule`` that changes nothing.
        side_effects: what the method changes: a table.
    """

    graph: Any
    side_effects: SideEffects


def capture(module: Any, *example_inputs: Any, method: str = "forward") -> Captured:  # noqa: ANN401
    """Capture what a method of a module computes, and what it changes, as one table.

    The module, its arguments, globals and everything else stay as they are.

    Args:
        module: the module.
        example_inputs: arguments of the method. Guards are taken from them; an argument that is left out
            must be left out by later calls too, or be given its default.
        method: name of the method.

    Raises:
        CaptureError: the method cannot be captured, or needs several tables; the error names the model's
            line.
    """
    (one,) = _captured(Entries(module, method, [example_inputs], 1, lasting=True), module)
    return one


def capture_entries(
    module: Any,  # noqa: ANN401
    calls: Sequence[tuple[Any, ...]],
    *,
    method: str = "forward",
    most: int = MOST_ENTRIES,
) -> tuple[Captured, ...]:
    """Capture a method as several tables, each with guards on what tells it from the others.

    Args:
        module: the module.
        calls: arguments of example calls, which are made one after the other. More entries are looked for
            with the same arguments: later calls, and other arms of branches on numbers and lengths.
        method: name of the method.
        most: entries. Further arms are left out, and a call that takes one fits no entry; but calls like the
            examples must come to an end of new entries.

    Returns:
        The entries, in the order in which they were found; a method that needs no more has one. They share
        one state at first.

    Raises:
        CaptureError: the method cannot be captured, or not with so many entries; the error names the model's
            line.
        ValueError: there is no call, or no entry is allowed.
    """
    if not calls or most < 1:
        raise ValueError(f"expected calls and at least one entry, found {len(calls)} and {most}")
    return _captured(Entries(module, method, calls, most), module)


def _captured(entries: Entries, module: Any) -> tuple[Captured, ...]:  # noqa: ANN401
    attempts = entries.find()
    originals, aliases = originals_of(module, [one.call for one in attempts])
    state = initial_state(originals, aliases, [one.flat.effects for one in attempts])
    for one in attempts:
        one.call.side_effects.state = state
    return tuple(Captured(one.graph, one.call.side_effects) for one in attempts)
