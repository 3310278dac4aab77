"""Compares captured calls: the same table, or tables whose guards never hold together."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.capture.sources import SOURCES
from archive.effects.looking import same_literal, type_name
from archive.formats.effects.model import At, Attribute, Computed, Constant, Each, Item, Length, Look, Output
from archive.formats.effects.parts import reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from archive.debuginfo.sites import Site
    from archive.effects.capture.attempt import Attempt
    from archive.formats.effects.model import Source

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


def excluding(first: Attempt, second: Attempt) -> list[Site] | None:
    """The site of a guard of the first call that never holds together with those of the second.

    Returns:
        The site, or none if the guard has none; None if there is no such guard.
    """
    numbers: dict[Any, int] = {}
    theirs = list(_facts(second, numbers))
    for guard, mine in zip(first.flat.effects.guards, _facts(first, numbers), strict=False):
        if any(_contradict(mine, its) or _contradict(its, mine) for its in theirs):
            return [first.flat.guard_sites[guard.handle]] if guard.handle >= 0 else []
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
