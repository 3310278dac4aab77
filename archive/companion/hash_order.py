"""The order of the rows in a call-stack map: PyTorch's hash tables produce it from the handles.

PyTorch keeps debug handles in a table by Fibonacci hashing: a handle's place is ``handle * FIBONACCI`` modulo
2^64. Since release 1.11 the rows are written in one of two orders:

=================  ===================================================================================
rule               rows
=================  ===================================================================================
``REVERSED`` (-1)  by descending places
``GROWN`` (-2)     as in a ``std::unordered_map`` of libstdc++ into which the handles were inserted by
                   ascending places (2.13)
=================  ===================================================================================

Such a map is one list, in which handles of the same bucket, ``handle % buckets``, are adjacent. An inserted
handle becomes the first one of its bucket, or of the whole list if the bucket is empty. A full map gets the
next number of ``BUCKETS``, and all handles are inserted again, in the order of the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.container.serialization_id import LIBSTDCXX_BUCKETS

if TYPE_CHECKING:
    from archive.base.columns import Ints

REVERSED, GROWN = -1, -2
FIBONACCI = np.uint64(11_400_714_819_323_198_485)
BUCKETS = LIBSTDCXX_BUCKETS[:18]
"""Up to 2,938,679 buckets. A map with more handles stores its order explicitly."""
ORDERED_BYTES = 128
"""Bytes of memory that each handle takes while an order is computed."""


def rule_of(handles: Ints, places: Ints) -> Ints:
    """A rule that gives the order of a call-stack map (1), or the order: the handle in each row (n)."""
    if len(handles) > 1:
        for rule in (REVERSED, GROWN):
            if np.array_equal(_by_rule(rule, handles), places):
                return np.array([rule], np.int64)
    return places


def is_rule(stored: Ints) -> bool:
    """Whether this is a rule rather than an order."""
    return len(stored) == 1 and bool(stored[0] < 0)


def places_by(stored: Ints, handles: Ints) -> Ints:
    """The handle in each row of a call-stack map (n), from what :func:`rule_of` returned."""
    if not is_rule(stored):
        return stored
    rule = int(stored[0])
    if rule not in (REVERSED, GROWN):
        raise ArchiveError(place="handle.place", expected="a known order of rows", found=str(rule))
    return _by_rule(rule, handles)


def _by_rule(rule: int, handles: Ints) -> Ints:
    keys = handles.view(np.uint64)
    ascending = np.argsort(keys * FIBONACCI, kind="stable")
    if rule == REVERSED:
        return ascending[::-1].copy()
    listed = ascending[:0]
    for buckets in BUCKETS:
        put_in = np.append(listed, ascending[len(listed) : buckets])
        listed = _listed(put_in, (keys[put_in] % np.uint64(buckets)).view(np.int64), buckets)
        if len(listed) == len(handles):
            break
    return np.append(listed, ascending[len(listed) :])


def _listed(put_in: Ints, bucket: Ints, buckets: int) -> Ints:
    """The list of a map, from what was inserted in some order (n), each into its bucket (n)."""
    backwards = np.arange(len(put_in))[::-1]
    first = np.zeros(buckets, np.int64)
    first[bucket[backwards]] = backwards  # of several, the last one written stays: the one inserted first
    return put_in[backwards[np.argsort(-first[bucket[backwards]], kind="stable")]]
