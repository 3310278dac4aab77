"""Strings of some bytes, by the form that the bytes have: JSON, a pickle, UTF-16 and UTF-32, or any other.

A string may be a layer's bytes itself: JSON in JSON.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from archive.privacy.pieces.json_strings import JSON, is_json, of_json
from archive.privacy.pieces.pickle_strings import OLD_FIRST, is_pickle, of_pickle
from archive.privacy.pieces.plain_strings import of_numbers, of_plain, of_wide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.limits import Allowance
    from archive.privacy.pieces.layer import Layer, Outer

SEAM = b'\n"\n'
"""Stands between JSON and JSON, so that no string goes on, and no escape."""


FIRST = {*(bytes([code]) for code in b"[{ \n\x80"), *OLD_FIRST}
"""First bytes of JSON and of pickles."""


def _is_pickle(text: bytes) -> bool:
    """Whether a string is a pickle: one of protocols 0 and 1 as a whole."""
    return (text[:1] == b"\x80" or text[-1:] == b".") and is_pickle(text)


class Inner(NamedTuple):
    """A string that has strings in it.

    Attributes:
        raw: as it stands in its layer.
        text: decoded.
    """

    raw: bytes
    text: bytes


def with_form(texts: Sequence[bytes]) -> list[int]:
    """The numbers of strings that are JSON or a pickle."""
    return [
        number
        for number, text in enumerate(texts)
        if text[:1] in FIRST and (JSON.match(text) or _is_pickle(text))
    ]


def layers(data: bytes, allowance: Allowance, outer: Outer = int, shortest: int = 1) -> list[Layer]:
    """The strings in some bytes, by the forms that the bytes have.

    Args:
        data: the bytes.
        allowance: takes the memory that the strings cost.
        outer: tells where the bytes come from.
        shortest: bytes of a string of JSON that may tell something.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    found: Layer
    if is_pickle(data):
        found = of_pickle(data, allowance, outer)
    elif is_json(data):
        found = of_json(data, allowance, outer, shortest)
    else:
        found = of_plain(data, allowance, outer)
    return [found, *of_wide(data, allowance, outer)]


def long_strings(data: bytes, allowance: Allowance) -> list[Layer]:
    """The strings in bytes of numbers: those that are too long for chance, and those of wide letters.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    if is_pickle(data):
        return layers(data, allowance)
    return [of_numbers(data, allowance), *of_wide(data, allowance, int)]


def layers_within(
    layer: Layer, strings: Sequence[Inner], allowance: Allowance, shortest: int
) -> Iterator[Layer]:
    """The layers of strings of a layer. All that are JSON have one, as they are many, small, and alike.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    json = [one for one in strings if is_json(one.text)]
    if json:
        starts = [0, *accumulate(len(one.text) + len(SEAM) for one in json)]
        outer = partial(_outer, layer, json, starts)
        yield of_json(SEAM.join(one.text for one in json), allowance, outer, shortest)
    for one in strings:
        if not is_json(one.text):
            yield from layers(one.text, allowance, partial(layer.place, one.raw), shortest)


def _outer(layer: Layer, strings: Sequence[Inner], starts: Sequence[int], position: int) -> int:
    number = bisect_right(starts, position) - 1
    return layer.place(strings[number].raw, position - starts[number])
