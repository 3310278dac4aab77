"""Weights of rows: their depth, and their size as text with all shared rows repeated.

Rows that share one another describe a text that is exponentially larger than the record, so both are bounded
before anything is spelled out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from archive.base.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.limits import Allowance
    from archive.formats.effects.rows import ConstantRow, SourceRow, ValueRow

    Weight = tuple[int, int]  # depth in rows; size, about the characters of the text

ROW_SIZE = 8
"""Size of a row besides its strings."""
TEXT_BYTES = 4
"""Bytes of memory that a character of the text costs."""


class Spelled(Protocol):
    """Rows of a table, and their uses by methods and state."""

    @property
    def strings(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def constants(self) -> Sequence[ConstantRow]: ...  # noqa: D102
    @property
    def sources(self) -> Sequence[SourceRow]: ...  # noqa: D102
    @property
    def values(self) -> Sequence[ValueRow]: ...  # noqa: D102

    def uses(self) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Sources and values that methods and state use, a pair for each use; -1 is none."""


def check_weights(rows: Spelled, allowance: Allowance) -> None:
    """Refuse rows that are too deep, or too large spelled out.

    Raises:
        LimitError: naming the row, or the size of all uses together.
    """
    texts = [len(text) for text in rows.strings]
    texts.append(0)  # NO_REFERENCE, -1, finds this last one
    constants = _constants(rows, texts, allowance)
    sources = _sources(rows, texts, constants, allowance)
    values = _values(rows, constants, sources, allowance)
    total = 0
    for some_sources, some_values in rows.uses():
        total += ROW_SIZE + sum(sources[source][1] for source in some_sources)
        total += sum(values[value][1] for value in some_values if value >= 0)
        with allowance.lent(TEXT_BYTES * total, "effects as text"):
            pass


def _constants(rows: Spelled, texts: Sequence[int], allowance: Allowance) -> list[Weight]:
    weights: list[Weight] = []
    for _, string, items in rows.constants:
        parts = [weights[item] for item in items]
        weights.append(_weight("constants", len(weights), texts[string], parts, allowance))
    return weights


def _sources(
    rows: Spelled, texts: Sequence[int], constants: Sequence[Weight], allowance: Allowance
) -> list[Weight]:
    weights: list[Weight] = []
    for kind, base, name in rows.sources:
        own, parts = 0, []
        if kind in ("attribute", "item", "length", "each"):
            parts.append(weights[base])
        if kind == "item":
            parts.append(constants[name])
        elif kind in ("global", "cell"):
            own = texts[base] + texts[name]
        elif kind not in ("temporary", "length", "each"):
            own = texts[name]
        weights.append(_weight("sources", len(weights), own, parts, allowance))
    return weights


def _values(
    rows: Spelled, constants: Sequence[Weight], sources: Sequence[Weight], allowance: Allowance
) -> list[Weight]:
    weights: list[Weight] = []
    for kind, number, items in rows.values:
        parts = [weights[item] for item in items]
        if kind in ("constant", "source"):
            parts.append((constants if kind == "constant" else sources)[number])
        weights.append(_weight("values", len(weights), 0, parts, allowance))
    return weights


def _weight(table: str, row: int, own: int, parts: Sequence[Weight], allowance: Allowance) -> Weight:
    """The weight of a row, from the size of its own strings and the weights of its parts."""
    depth = 1 + max((depth for depth, _ in parts), default=0)
    size = ROW_SIZE + own + sum(size for _, size in parts)
    place = f"field {table}, row {row}"
    if depth > allowance.limits.effect_depth:
        raise LimitError("effect_depth", allowance.limits.effect_depth, depth, place=place)
    with allowance.lent(TEXT_BYTES * size, "effects as text", place=place):
        pass
    return depth, size
