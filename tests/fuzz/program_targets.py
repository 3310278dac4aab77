"""The target for exported programs: JSON is read, checked, and built again of what is left of it."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

from archive.base.json_text import read_json
from archive.base.limits import Limits
from archive.check.loading.programs import program_faults
from archive.check.loading.programs.files import Payloads
from archive.formats.exported.program import Program, filled, left_of
from tests.fuzz.mutations import changed_bytes, number
from tests.fuzz.targets import Target, smallest
from tests.support.broken_programs import found_at, positions, put
from tests.support.exported import PROGRAMS

if TYPE_CHECKING:
    from random import Random

OTHERS: tuple[Any, ...] = (None, True, "x", [], {}, 1.5, float("inf"), float("nan"))


def read_program(data: bytes) -> None:
    """A program: what is left of it and its metadata give it again, and its faults are told."""
    allowance = Limits().allowance(len(data))
    tree = read_json(memoryview(data), allowance)
    assert all(fault.message for fault in program_faults(tree, Payloads({}, {})))
    sites = Program.of("model", tree).sites.values()
    left = left_of(memoryview(data), allowance)
    if left is not None:
        assert filled(memoryview(left), [site.metadata for site in sites], allowance) == data


def changed_program(chance: Random, data: bytes) -> bytes:
    """A program with another value, one from elsewhere in it, or other bytes."""
    if not chance.randrange(4):
        return changed_bytes(chance, data)
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return data
    ways = list(positions(tree))
    if not ways:
        return data
    way = chance.choice(ways)
    value = found_at(tree, chance.choice(ways))
    if chance.randrange(2):
        value = chance.choice((*OTHERS, number(chance, 1)))
    return json.dumps(put(tree, way, value)).encode()


def _programs() -> list[bytes]:
    found = []
    for path in PROGRAMS:
        with zipfile.ZipFile(path) as source:
            found += [source.read(name) for name in source.namelist() if "/models/" in name]
    return smallest(found, 6, 16_000)


TARGETS = {"program": Target(read_program, _programs, changed_program)}
