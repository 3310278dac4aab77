"""Which cases of a large matrix are run: ``make test`` takes some of them, ``make test-all`` takes all.

A matrix asks many times whether the same holds: of every archive, of every command with every attack. The
cases that run are chosen by a hash of their names, so they are the same on every machine and in every
Python, and a new case replaces one at most. Tables whose rows are each about something else are no
matrices: nothing of them is left out.

``tests/conftest.py`` sets ``Suite.whole``: ``pytest --all``, which is what ``make test-all`` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from hashlib import blake2b
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

MOST = 6
"""Cases of a matrix that run, where nothing else is said."""
FEWER = 5
"""Of so many examples that hypothesis may draw, it draws one."""


class Suite:
    """What runs: everything, or a sample."""

    whole = False


def whole_suite(test: T) -> T:
    """Mark a test that only `make test-all` runs: whether PyTorch and Dask are as they were, say."""
    skipping: Any = pytest.mark.skipif(not Suite.whole, reason="`make test-all` runs it")
    marked: T = skipping(test)
    return marked


def sampled(cases: Iterable[T], most: int = MOST, by: Sequence[Callable[[Any], object]] = ()) -> list[T]:
    """Some of the cases, in their order; all of them if the whole suite runs, or there are not more.

    Args:
        cases: have names: see ``name_of``.
        most: the number of cases that are taken.
        by: traits of a case, its kind say; each value of each trait is taken, even if these are more.
    """
    listed = list(cases)
    if Suite.whole or len(listed) <= most:
        return listed
    order = sorted(range(len(listed)), key=lambda at: _hash(name_of(listed[at])))
    values = [{(number, name_of(trait(case))) for number, trait in enumerate(by)} for case in listed]
    missing = set().union(*values)
    taken: list[int] = []
    while missing:
        taken.append(max(order, key=lambda at: len(values[at] & missing)))
        missing -= values[taken[-1]]
    others = [at for at in order if at not in taken]
    return [listed[at] for at in sorted(taken + others[: max(0, most - len(taken))])]


def crossed(*axes: Iterable[Any], most: int = MOST) -> list[tuple[Any, ...]]:
    """Some of all combinations; each value of each axis is in one of them, so sample a long axis before."""
    listed = list(map(list, axes))
    places = [itemgetter(number) for number in range(len(listed))]
    return sampled(product(*listed), most, places)


def examples(count: int) -> int:
    """How many examples hypothesis draws of those that the whole suite draws."""
    return count if Suite.whole else max(count // FEWER, 1)


def name_of(case: object) -> str:
    """The name of a case, which says the same everywhere.

    Raises:
        TypeError: a case of another kind, whose text may differ from run to run.
    """
    if isinstance(case, Path):
        return f"{case.parent.name}/{case.name}"
    if isinstance(case, Enum):
        return case.name
    if case is None or isinstance(case, str | bytes | int | float):
        return repr(case)
    if isinstance(case, Mapping):
        return name_of(list(case.items()))
    if isinstance(case, Sequence):
        return " ".join(map(name_of, case))
    for naming in ("__qualname__", "name"):
        if isinstance(name := getattr(case, naming, None), str):
            return name
    raise TypeError(f"a case of {type(case).__name__} has no name")


def _hash(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=16).digest()
