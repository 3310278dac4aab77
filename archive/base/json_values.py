"""JSON of strangers, parsed only if it has no more values than it may: ``{},`` takes 24 times its bytes."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

from archive.base.errors import ArchiveError, shown

TOKEN = re.compile(rb'(?s)"(?:[^"\\]++|\\.)*+"?|[\[{,]')
"""A string, as a whole, or what begins another value. Nothing is gone back over, in no step."""


def check_values(data: bytes, most: int) -> None:
    """Refuse JSON of too many values, before any of them is made.

    Args:
        data: the JSON.
        most: its values and commas, at most. Each costs up to 100 bytes, and as many as a string is long.

    Raises:
        ArchiveError: it has more.
    """
    if next(islice(TOKEN.finditer(data), most, None), None) is not None:
        raise ArchiveError(f"JSON of more than {most:,} values and commas")


def parsed_json(data: bytes, most: int) -> Any:  # noqa: ANN401 (any JSON)
    """The value of JSON.

    Args:
        data: the JSON.
        most: its values and commas, at most.

    Raises:
        ArchiveError: it is none, or has too many values.
    """
    check_values(data, most)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(expected="JSON", found=shown(str(error))) from None
