"""What part of a record a byte is in: the path in JSON, the section of a shared object."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, LimitError
from archive.formats.elf.parse import is_elf, parse_object
from archive.privacy.pieces.json_places import JsonPlaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.limits import Allowance
    from archive.formats.elf.model import Stretch

MAPPED = ", mapped"
"""Ends the name of a part of a shared object that the loader maps: taken out, the object would not run."""


def json_parts(json: bytes, allowance: Allowance) -> Callable[[int], str]:
    """Tells paths in JSON.

    Args:
        json: the JSON.
        allowance: takes the memory that it costs.

    Raises:
        LimitError: it would take more memory than allowed.
    """
    return JsonPlaces(json, allowance).path


def object_parts(data: memoryview) -> Callable[[int], str]:
    """Tells sections of a shared object, and whether they are mapped; "" for any other bytes."""
    try:
        stretches = list(parse_object(data).stretches()) if is_elf(data) else []
    except LimitError:
        raise
    except ArchiveError:  # headers that contradict one another name no section
        stretches = []
    return lambda position: _section(stretches, position)


def _section(stretches: list[Stretch], position: int) -> str:
    number = bisect_right(stretches, position, key=lambda one: one.start) - 1
    if number < 0:
        return ""
    one = stretches[number]
    return f"{one.name or one.part}{MAPPED if one.mapped else ', not mapped'}"
