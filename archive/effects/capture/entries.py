"""Captures a method of a module: the graph of what it computes, and the table of what it changes.

The method is called with proxies of everything that it can change. The call is repeated until it shows no new
change: by then, numbers that calls write are inputs of the graph, and lists that calls change have symbolic
length.

A method that behaves differently in different states is described by several *entries*: each is a graph and a
table with guards on the state. The first entries come from the example calls, each made from the state that
the previous one leaves; the same calls are repeated until they show nothing new. So the first call, which
fills a cache, is one entry, and all others are another. Then, where a number or a length decided which branch
an entry took, a state is sought that takes the other branch, and calls are made from there. Two entries never
both fit a call: their guards exclude each other, or the model is refused.

Reads of anything except tensors' elements and values that calls write become guards: shapes, types,
arguments, attributes, globals. Each guard names the model's statement that relies on it. Sizes, and numbers
that are arguments, are numbers of the graph as long as they only flow into other numbers.

Values before the first call are read from the real objects, whatever later calls put in their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.capture.attempt import Attempt, attempt
from archive.effects.capture.following.interception import several_attempts
from archive.effects.capture.graph.guards import copied
from archive.effects.capture.graph.sites import error_at, line_of
from archive.effects.capture.graph.variables import SOURCES
from archive.effects.capture.initial import initial_state, originals_of
from archive.effects.capture.next_states import (
    decides_by_results,
    decisions_of,
    snapshot_after,
    state_for_other,
)
from archive.effects.capture.table.call import SeenChanges
from archive.effects.capture.table.snapshot import Snapshot
from archive.effects.errors import CaptureError, ModelFailedError
from archive.effects.looking import FOLLOWING, UNCOMPARED, same_literal
from archive.effects.nested import with_tensors
from archive.formats.effects.model import (
    At,
    Attribute,
    Computed,
    Constant,
    Each,
    Item,
    Length,
    Look,
    Op,
    Output,
)
from archive.formats.effects.parts import reads
from archive.formats.effects.source_text import effect_text, guard_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.debuginfo.sites import Site
    from archive.effects.capture.graph.guards import Assumption
    from archive.effects.capture.table.pending import InitialState
    from archive.effects.capture.table.side_effects import SideEffects
    from archive.formats.effects.model import Source


# --- comparing


def difference(first: Attempt, second: Attempt) -> list[Site] | None:
    """The sites where two calls differ first; None if they are the same."""
    flat, other_flat = first.flat, second.flat
    nodes, others = list(first.graph.graph.nodes), list(second.graph.graph.nodes)
    for number, (mine, its) in enumerate(zip_longest(nodes, others)):
        if mine is None or its is None or _node_key(mine) != _node_key(its):
            rest = [*nodes[number:], *others[number:]]
            sites = [node.meta["site"] for node in rest if "site" in node.meta]
            return [*sites, *flat.sites, *other_flat.sites]
    for before, after in zip_longest(flat.effects.effects, other_flat.effects.effects):
        if before != after:
            places = ((flat, before), (other_flat, after))
            return [side.sites[effect.handle] for side, effect in places if effect and effect.handle >= 0]
    for mine, its in zip_longest(flat.effects.guards, other_flat.effects.guards):
        if mine != its:
            sides = ((flat, mine), (other_flat, its))
            return [side.guard_sites[guard.handle] for side, guard in sides if guard and guard.handle >= 0]
    return None if flat.effects == other_flat.effects else []


def why(first: Attempt, second: Attempt, distinguishing: Assumption | None) -> str:
    """How two calls differ, for a message.

    Args:
        distinguishing: a guard of the second that does not hold for the first, if there is one.
    """
    if distinguishing is not None:
        return _found_by(second, distinguishing)
    kinds: tuple[tuple[Any, Any, Any], ...] = (
        (first.flat.effects.effects, second.flat.effects.effects, effect_text),
        (first.flat.effects.guards, second.flat.effects.guards, guard_text),
        (tuple(first.graph.graph.nodes), tuple(second.graph.graph.nodes), _node_text),
    )
    for ours, theirs, text in kinds:
        for mine, its in zip_longest(ours, theirs):
            texts = ["nothing" if one is None else text(one) for one in (mine, its)]
            if texts[0] != texts[1]:
                return f"first {texts[0]}, then {texts[1]}"
    return "its result is another one"


def sites_of_moves(attempt: Attempt) -> list[Site]:
    """The sites at which a call puts a module in another place."""
    flat, originals = attempt.flat, attempt.call.originals
    return [
        flat.sites[effect.handle]
        for effect in flat.effects.effects
        if effect.op is Op.SET_ATTRIBUTE and effect.handle >= 0 and isinstance(effect.value, At)
        if isinstance(originals.get(effect.value.source), torch.nn.Module)
    ]


def _found_by(attempt: Attempt, distinguishing: Assumption) -> str:
    """The guard of a call, as text."""
    pairs = zip(attempt.call.side_effects.guards, attempt.flat.effects.guards, strict=False)
    return next((f"it finds {guard_text(flat)}" for guard, flat in pairs if guard is distinguishing), "")


def _node_text(node: Any) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _node_key(node: Any) -> tuple[str, ...]:
    return node.op, str(node.target), str(node.args), str(node.kwargs), str(node.type)


class Fact(NamedTuple):
    """A guard; its subject is the same in all calls that look at the same number."""

    look: Look
    subject: object
    value: Any
    key: Any


def excluding(first: Attempt, second: Attempt) -> Assumption | None:
    """A guard of the first call that never holds together with those of the second; or None."""
    numbers: dict[Any, int] = {}
    theirs = list(_facts(second, numbers))
    for guard, mine in zip(first.call.side_effects.guards, _facts(first, numbers), strict=False):
        if any(_contradict(mine, its) or _contradict(its, mine) for its in theirs):
            return guard
    return None


def _facts(attempt: Attempt, numbers: dict[Any, int]) -> Iterator[Fact]:
    """The guards of a call; numbers of the graph are identified by the operations that make them."""
    by_node: dict[Any, int] = {}
    for node in attempt.graph.graph.nodes:
        parts = tuple(by_node[operand] for operand in node.all_input_nodes)
        by_node[node] = numbers.setdefault((*_node_key(node), parts), len(numbers))
    facts = []
    for guard in attempt.flat.effects.guards:
        value = guard.value.value if isinstance(guard.value, Constant) else guard.value
        key = guard.key.value if isinstance(guard.key, Constant) else None
        subject: object = guard.subject.source if isinstance(guard.subject, At) else guard.subject
        if isinstance(subject, Output):
            subject = by_node[attempt.flat.outputs[subject.index]]
        facts.append(Fact(guard.look, subject, value, key))
    yield from facts
    for same in facts:
        if same.look is Look.SAME and isinstance(same.value, At):
            of_other = (fact for fact in facts if fact.subject == same.value.source)
            yield from (fact._replace(subject=same.subject) for fact in of_other)


def _contradict(fact: Fact, other: Fact) -> bool:
    """Whether two guards never hold together; it may take both orders to find out."""
    if fact.look is Look.SAME and other.look is Look.APART:
        return {fact.subject, fact.value.source} == {other.subject, other.value.source}
    if fact.subject == other.subject and type(fact.subject) is type(other.subject):
        if fact.look is other.look:
            comparable = fact.look not in UNCOMPARED and same_literal(fact.key, other.key)
            return comparable and not same_literal(fact.value, other.value)
        follows = FOLLOWING.get((fact.look, other.look))
        return follows is not None and follows(fact.value, other.key) != other.value
    if not isinstance(fact.subject, SOURCES):
        return False
    # The places that the other guard looks at, and the places that contain these.
    subject = other.subject
    places: list[Any] = list(reads(subject)) if isinstance(subject, Computed) else [subject]
    for place in places:
        if isinstance(place, Attribute | Item | Length | Each):
            places.append(place.base)  # noqa: PERF401 (the list grows while it is gone through)
    return any(_is_missing(fact, place) for place in places)


def _is_missing(fact: Fact, place: object) -> bool:
    """Whether a guard says that a place does not exist."""
    if not isinstance(place, Attribute | Item) or place.base != fact.subject:
        return False
    if isinstance(place, Attribute):
        return fact.look is Look.ATTRIBUTE and fact.key == place.name and not fact.value
    if fact.look is Look.HAS:
        return same_literal(fact.key, place.key) and not fact.value
    if fact.look is Look.KEYS:
        return not any(same_literal(key, place.key) for key in fact.value)
    is_index = fact.look is Look.LENGTH and type(place.key) is int
    return is_index and not -fact.value <= place.key < fact.value


# --- entries

AGAIN = "a second call, from where the first one ends, does something else"
MOVED = ", since this puts a module in another place"
MORE_ROUNDS = 16
"""Rounds of one call after the steady state, where sizes of results may still lead to another branch."""
Arguments = tuple[Any, ...]


class GrownError(Exception):
    """A call has shown changes that earlier calls had not."""


class UnclearError(CaptureError):
    """Two calls differ, and no guard distinguishes them."""


@dataclass(slots=True)
class Arm:
    """One path through a method.

    Attributes:
        arguments: of the latest call.
    """

    first: Attempt
    latest: Attempt
    arguments: Arguments


class Entries:
    """Finds the entries of a method, at most ``most``; if ``single``, only one, which must fit all states.

    Attributes:
        others: arguments and states that take other branches than entries do, and from which calls were
            captured.
    """

    def __init__(
        self,
        module: Any,
        method: str,
        calls: Sequence[Arguments],
        most: int,
        *,
        single: bool = False,
    ) -> None:
        self._module, self._method, self._calls = module, method, calls
        self._most, self._single, self._seen = most, single, SeenChanges()
        self._entries: list[Arm] = []
        self._tried: set[tuple[Any, ...]] = set()
        self._snapshot = Snapshot()
        self.others: list[tuple[Arguments, Snapshot]] = []

    def find(self) -> list[Attempt]:
        """The first call of each entry."""
        while True:
            self._entries, self._tried, self._snapshot, self.others = [], set(), Snapshot(), []
            try:
                self._play_examples()
                for arguments in self._calls[1:]:
                    self._try(arguments, Snapshot())  # each example from the initial state
                while len(self._entries) < self._most and (start := self._other_arm()) is not None:
                    self._try(*start)
                self._play_on()
            except GrownError:
                continue
            return [entry.first for entry in self._entries]

    # --- ways to call ------------------------------------------------------------------------------

    def _play_examples(self) -> None:
        """The example calls in sequence, repeated until they show nothing new."""
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

    def _other_arm(self) -> tuple[Arguments, Snapshot] | None:
        """Arguments and a state that lead to a branch that no entry has taken; None if none is known."""
        for entry in self._entries:
            decisions = decisions_of(entry.latest)
            for number, (subject, value) in enumerate(decisions):
                path = (*decisions[:number], (subject, not value))
                paths = (tuple(decisions_of(arm.first)[: number + 1]) for arm in self._entries)
                if path in self._tried or path in paths:
                    continue
                snapshot = state_for_other(entry.latest, number)
                if snapshot is not None:
                    self._tried.add(path)
                    return entry.arguments, snapshot
        return None

    def _try(self, arguments: Arguments, snapshot: Snapshot) -> None:
        """Play from a state that later calls may meet; leave out a branch that cannot be captured.

        A call that takes such a branch fits no entry.
        """
        try:
            self._repeat(self._after(fresh(arguments), snapshot))
        except UnclearError:
            raise
        except CaptureError:
            return
        self.others.append((arguments, snapshot))

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
        """More rounds, if sizes of results decide in entries: no single number leads to the other branch."""
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
        seen = self._seen
        size, in_place = seen.size(), len(seen.in_place)
        try:
            made = attempt(self._module, self._method, arguments, snapshot, seen)
        except CaptureError as error:
            seen.copies.check()
            if isinstance(error, ModelFailedError) or not again:
                raise
            raise _again(error) from error
        finally:
            # A tensor that only this call changes in place may be part of the graphs of earlier entries.
            if seen.size() > size or (self._entries and len(seen.in_place) > in_place):
                raise GrownError
        self._note(made, arguments)
        return snapshot_after(made.call)

    def _note(self, made: Attempt, arguments: Arguments) -> None:
        """Note the entry of a call.

        Raises:
            UnclearError: it is like no entry, but an entry's guards may hold, too.
        """
        for guard in made.call.side_effects.guards:
            if self._single and guard.reason:
                raise error_at(guard.reason, guard.statement)
        for entry in self._entries:
            if difference(entry.first, made) is None:
                entry.latest, entry.arguments = made, arguments
                return
        distinguishing: Assumption | None = None
        for entry in self._entries:
            distinguishing = excluding(made, entry.first)
            if distinguishing is None or self._most == 1:
                moves = [site for one in (entry.first, made) for site in sites_of_moves(one)]
                sites = moves or difference(entry.first, made) or []
                line = next(filter(None, map(line_of, sites)), ("", 0))
                said = f"{AGAIN}{MOVED if moves else ''}: {why(entry.first, made, distinguishing)}"
                raise UnclearError(said, *line)
        if distinguishing is not None and len(self._entries) == self._most:
            reason = distinguishing.reason or f"{AGAIN}: {_found_by(made, distinguishing)}"
            message = f"{reason}; {self._most} tables are not enough"
            raise error_at(message, distinguishing.statement)
        self._entries.append(Arm(made, made, arguments))


def _again(error: CaptureError) -> CaptureError:
    """The error for a call after the first."""
    if error.message.startswith(AGAIN):
        return error
    return type(error)(f"{AGAIN}: {error.message}", error.filename, error.line)


def fresh(value: Any) -> Any:
    """A copy with tensors of its own."""
    return with_tensors(value, copied)


MOST_ENTRIES = 8
"""Most entries of a method, unless more are allowed."""


class Captured(NamedTuple):
    """A captured method, or one of its entries.

    Attributes:
        graph: what the method computes: a ``torch.fx.GraphModule`` that changes nothing.
        side_effects: what the method changes: a table.
    """

    graph: Any
    side_effects: SideEffects


class Found(NamedTuple):
    """The entries of a method.

    Attributes:
        aliases: further sources of a value in it, each with the first one.
    """

    attempts: list[Attempt]
    initial: InitialState
    aliases: dict[Source, Source]
    others: list[tuple[Arguments, Snapshot]]

    @property
    def captured(self) -> tuple[Captured, ...]:
        """The entries, without what only the capture needs."""
        return tuple(Captured(made.graph, made.call.side_effects) for made in self.attempts)


def found_entries(
    module: Any,
    method: str,
    calls: Sequence[Arguments],
    most: int,
    *,
    single: bool = False,
) -> Found:
    """The entries of a method, and their common initial state; nothing is tried yet.

    Args:
        single: the only entry must fit all states.
    """
    entries = Entries(module, method, calls, most, single=single)
    with several_attempts():
        attempts = entries.find()
    originals, aliases = originals_of(module, [made.call for made in attempts])
    initial = initial_state(originals, aliases, [made.flat.effects for made in attempts])
    for made in attempts:
        made.call.side_effects.state = initial
    return Found(attempts, initial, aliases, entries.others)
