r"""JSON, parsed within bounds, and whether it is as ``json.dumps`` writes it.

Values take more memory than their text: ``{},`` 24 times as much. :func:`read_json` asks for the memory that
the values of a record take; :func:`parsed_json` bounds their number.

PyTorch writes ``model.json`` with ``json.dumps``: ASCII, ``", "`` and ``": "`` between values. The value of
such a record rebuilds its bytes. Others do not: duplicate keys, ``1E5``, ``\/``, raw UTF-8.
"""

from __future__ import annotations

import gc
import json
import re
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from archive.base import memory
from archive.base.errors import ArchiveError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_DEPTH = 200
"""Most values inside values, where they are followed. PyTorch's own have some 12, plus 7 per nested graph."""
COSTS = {b"{": 248, b"[": 96, b'"': 40, b",": 60, b":": 130}
"""Most bytes of memory for a character of JSON, as part of an object, list or text."""
COPIES = 8
"""Most copies of a byte of JSON: in the record, as a character, in a text, in another record."""
WIDE = 2
"""The same if characters take up to four bytes."""
COSTLESS = bytes(set(range(1 << 8)) - set(b"".join(COSTS)))
CHUNK_BYTES = 1 << 20
"""Bytes that are examined together, so that few are copied."""
TYPE_WORDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    type(None): "nothing",
} | {
    int: "a number",
    float: "a number",
}
TOKEN = re.compile(rb'(?s)"(?:[^"\\]++|\\.)*+"?|[\[{,]')
"""A whole string, or what begins another value. It never backtracks."""


def words(value: object) -> str:
    """The kind of a value, for a message."""
    return TYPE_WORDS.get(type(value), "something else")


def read_json(data: memoryview) -> Any:  # noqa: ANN401 (any value)
    """The value of a JSON record."""
    memory.take(json_cost(data), "JSON values")
    with json_errors("character"), without_collecting():
        return json.loads(str(data, "utf-8"))


@contextmanager
def json_errors(unit: Literal["byte", "character"]) -> Iterator[None]:
    """Turn errors of the block, which decodes and parses JSON, into this library's.

    Args:
        unit: what ``json`` counts in its input.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise ArchiveError(place=f"byte {error.start}", expected="UTF-8", found="other bytes") from None
    except json.JSONDecodeError as error:
        raise ArchiveError(place=f"{unit} {error.pos}", expected="JSON", found=error.msg) from None
    except RecursionError:
        raise ArchiveError(expected="JSON", found="values nested too deeply") from None
    except ValueError as error:  # an int of more digits than Python converts
        raise ArchiveError(expected="JSON", found=str(error).partition(";")[0]) from None


def json_cost(data: bytes | memoryview) -> int:
    """Most bytes of memory that the values of a JSON record may take, whatever is in it."""
    cost, copies = 0, COPIES
    for at in range(0, len(data), CHUNK_BYTES):
        held = bytes(data[at : at + CHUNK_BYTES])
        costly = held.translate(None, COSTLESS)
        cost += sum(each * costly.count(character) for character, each in COSTS.items())
        if not held.isascii() or b"\\u" in held or held.endswith(b"\\"):
            copies = WIDE * COPIES
    return copies * len(data) + cost


def is_exact(value: object, data: memoryview) -> bool:
    """Whether ``json.dumps`` rebuilds the bytes of a record."""
    return json.dumps(value).encode() == bytes(data)  # a view is compared item by item


def check_values(data: bytes, most: int) -> None:
    """Refuse JSON with too many values, before any of them is made.

    Args:
        most: most values and commas. Each takes up to 100 bytes, plus the length of a string.
    """
    if next(islice(TOKEN.finditer(data), most, None), None) is not None:
        raise ArchiveError(f"JSON of more than {most:,} values and commas")


def parsed_json(data: bytes, most: int) -> Any:  # noqa: ANN401 (any JSON)
    """The value of JSON."""
    check_values(data, most)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(expected="JSON", found=shown(str(error))) from None


@contextmanager
def without_collecting() -> Iterator[None]:
    """Pause the collector, which looks for garbage whenever many objects were made.

    Lowering makes many objects that stay, and no garbage in cycles; the collector would take a third of its
    time. So does reading much JSON, or a large pickle.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
