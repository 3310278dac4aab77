"""The memo of pickles: the value that a memo read stands for.

A write (BINPUT) keeps the value on top of the stack under a number, and a read (BINGET) pushes it again.
PyTorch numbers its writes 0, 1, 2 … and never writes a number twice; other pickles may. Three ways, from the
quickest to the most general: a table by number, a search among rising keys, a sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from archive.pickles.scan import Tokens


def last_puts(tokens: Tokens, puts: np.ndarray, gets: np.ndarray) -> np.ndarray:
    """For each memo read, the last write to its entry before it, as an index into ``puts``.

    Args:
        tokens: the pickles.
        puts: the tokens that write to the memo (rising).
        gets: those that read from it (rising).

    Raises:
        ArchiveError: a read has no such write.
    """
    if not len(gets):
        return gets
    if not len(puts):
        _refuse_unset(tokens, gets, np.ones(len(gets), np.bool_))
    found: np.ndarray
    highest = int(tokens.arg[puts].max(initial=-1))
    if len(tokens.pickles) == 1 and highest < 2 * len(puts):  # one pickle, numbers without large gaps
        entry = np.full(highest + 2, -1)
        entry[tokens.arg[puts]] = np.arange(len(puts))
        found = entry[np.minimum(tokens.arg[gets], highest + 1)]
        if (entry[tokens.arg[puts]] == np.arange(len(puts))).all() and (puts[found] < gets)[found >= 0].all():
            _refuse_unset(tokens, gets, found < 0)
            return found
    # Each pickle has a memo of its own, so its number is part of the key.
    pickle = np.searchsorted(tokens.first, np.concatenate((puts, gets)), "right")
    keys = (pickle << 32) + tokens.arg[np.concatenate((puts, gets))]
    put_key, get_key = keys[: len(puts)], keys[len(puts) :]
    if (np.diff(put_key) > 0).all():  # no entry is written twice
        found = np.minimum(np.searchsorted(put_key, get_key), len(puts) - 1)
        unset = (put_key[found] != get_key) | (puts[found] > gets)
    else:  # sorted by (entry, token), the last write stands right before its reads
        entry = np.unique(keys, return_inverse=True)[1] * (len(tokens.op) + 1)
        written = entry[: len(puts)] + puts
        order = np.argsort(written, kind="stable")
        before = np.searchsorted(written[order], entry[len(puts) :] + gets) - 1
        found = order[before]
        unset = (before < 0) | (put_key[found] != get_key)
    _refuse_unset(tokens, gets, unset)
    return found


def _refuse_unset(tokens: Tokens, gets: np.ndarray, unset: np.ndarray) -> None:
    if unset.any():
        raise tokens.fault(int(gets[np.flatnonzero(unset)[0]]), "the memo has no such entry")
