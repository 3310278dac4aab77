"""Keys made from a file's numbers.

Python mixes a secret of the process into the hashes of texts and bytes, but not into those of numbers: -1 and
-2 have the same hash, as do 0 and 2^61 - 1, and tuples that differ only in these. Whoever writes a file can
choose thousands of such tuples, and a dict of n of them takes n² comparisons. So whatever is looked up by
several numbers of a file is looked up by a text instead.
"""

from __future__ import annotations


def text_key(*parts: object) -> str:
    """The key of some numbers, texts and tuples of them: equal only for equal ones.

    >>> text_key(0, (3, -1)), hash(-1) == hash(-2), text_key(-1) == text_key(-2)
    ('(0, (3, -1))', True, False)
    """
    return repr(parts)
