"""The memo of pickles: the value that a memo read stands for.

A write (BINPUT) keeps the value on top of the stack under a number, and a read (BINGET) pushes it again.
PyTorch numbers its writes 0, 1, 2 … and never writes a number twice; other pickles may. Three ways, from the
quickest to the most general: a table by number, a search among rising keys, a sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import gathered

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.pickles.scan import Tokens

ENTRY_BYTES = 32
"""Bytes of memory that a write to the memo or a read costs while they are matched by search or sort."""


def last_puts(tokens: Tokens, puts: np.ndarray, gets: np.ndarray, allowance: Allowance) -> np.ndarray:
    """For each memo read, the last write to its entry before it, as an index into ``puts``.

    Args:
        tokens: the pickles.
        puts: the tokens that write to the memo (rising).
        gets: those that read from it (rising).
        allowance: the memory that the memo may cost.

    Raises:
        ArchiveError: a read has no such write.
        LimitError: the memo costs more memory than allowed.
    """
    if not len(gets):
        return gets
    if not len(puts):
        _refuse_unset(tokens, gets, np.ones(len(gets), np.bool_))
    found: np.ndarray
    numbers = np.arange(len(puts), dtype=puts.dtype)
    written = gathered(tokens.arg, puts)
    highest = int(written.max())
    if len(tokens.pickles) == 1 and highest < 2 * len(puts):  # one pickle, numbers without large gaps
        entry = np.full(highest + 2, -1, puts.dtype)
        entry[written] = numbers
        found = gathered(entry, np.minimum(gathered(tokens.arg, gets), highest + 1))
        if (gathered(entry, written) == numbers).all() and (gathered(puts, found) < gets)[found >= 0].all():
            _refuse_unset(tokens, gets, found < 0)
            return found
    with allowance.lent(ENTRY_BYTES * (len(puts) + len(gets)), "memo entries", record=tokens.pickles[0].name):
        found, unset = _sought(puts, gets, _keys(tokens, puts), _keys(tokens, gets), len(tokens.op))
    _refuse_unset(tokens, gets, unset)
    return found


def _sought(
    puts: np.ndarray, gets: np.ndarray, put_key: np.ndarray, get_key: np.ndarray, tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each memo read, a write as an index into ``puts``, and whether it is none to this entry before it.

    Args:
        puts: the tokens that write.
        gets: those that read.
        put_key: the entry that each writes.
        get_key: the entry that each reads.
        tokens: how many there are.
    """
    if (np.diff(put_key) > 0).all():  # no entry is written twice
        found = np.minimum(np.searchsorted(put_key, get_key), len(puts) - 1)
        return found, (put_key[found] != get_key) | (puts[found] > gets)
    # sorted by (entry, token), the last write stands right before its reads
    order = np.argsort(put_key, kind="stable")
    entry = put_key[order]
    number = np.cumsum(np.diff(entry, prepend=entry[0]) > 0) * tokens
    same = np.minimum(np.searchsorted(entry, get_key), len(puts) - 1)
    before = np.searchsorted(number + puts[order], number[same] + gets) - 1
    return order[before], (before < 0) | (entry[before] != get_key)


def _keys(tokens: Tokens, nodes: np.ndarray) -> np.ndarray:
    """The memo entries that some tokens write or read: each pickle has a memo of its own."""
    pickle = np.searchsorted(tokens.first, nodes, "right")
    pickle <<= 32
    pickle += gathered(tokens.arg, nodes)
    return pickle


def _refuse_unset(tokens: Tokens, gets: np.ndarray, unset: np.ndarray) -> None:
    if unset.any():
        raise tokens.fault(int(gets[np.flatnonzero(unset)[0]]), "the memo has no such entry")
