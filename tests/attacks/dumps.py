"""ETDumps that ask for much, lie or lead in circles, alone and with an ETRecord."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.attacks.attack import Attack
from tests.support.etdumps import Block, Event, Value, built, dump
from tests.support.exported import record

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = ("inspect m.etdp", "profile m.etdp", "profile m.etdp -c m.etrecord --by instruction -n 0")
CALL = Event("OPERATOR_CALL", 0, 0, 1, 2)


def _made(make: Callable[[], bytes], name: str = "region") -> Callable[[], dict[str, bytes]]:
    """An ETDump, and the ETRecord of a program."""
    return lambda: {"m.etdp": make(), "m.etrecord": record(name).read_bytes()}


def _lying(form: str, wrong: int) -> bytes:
    """A dump in which each number that may be an offset or a length is another."""
    data = bytearray(dump("region").read_bytes())
    for at in range(12, len(data) - 3, 4):
        if 0 < struct.unpack_from("<i", data, at)[0] < len(data):
            struct.pack_into(form, data, at, wrong)
    return bytes(data)


def _circle() -> bytes:
    """A vtable that is its own table, whose fields lead back to it."""
    body = struct.pack("<iHHHH", 0, 12, 12, 4, 4) + bytes(64)
    return struct.pack("<I4s", 8, b"ED00") + body


def _many_methods() -> bytes:
    """Runs each of which ran other instructions."""
    runs = []
    for number in range(2_000):
        events = [CALL._replace(instruction=number), CALL._replace(instruction=number + 1)]
        runs.append(Block(events))
    return built(runs)


ATTACKS = {
    "blocks of an ETDump that are one": Attack(
        "2,000 blocks are one of 2,000 events, which are one event.",
        _made(lambda: built([Block([CALL] * 2_000)] * 2_000)),
        COMMANDS,
    ),
    "events of an ETDump that are one": Attack(
        "200,000 references lead to one event.",
        _made(lambda: built([Block([CALL] * 200_000)])),
        COMMANDS,
        loops=2_500,
    ),
    "values of an ETDump that are one": Attack(
        "200,000 references lead to one value, a list of a tensor.",
        _made(lambda: built([Block([Value(0, 0, [(6, [2], [1], 0)], is_list=True)] * 200_000)])),
        COMMANDS,
        loops=2_500,
    ),
    "blocks of an ETDump without events": Attack(
        "100,000 references lead to one empty block.", _made(lambda: built([Block([])] * 100_000)), COMMANDS
    ),
    "largest numbers in an ETDump": Attack(
        "Each offset and length is the largest number.", _made(lambda: _lying("<I", 0xFFFFFFFF)), COMMANDS
    ),
    "offsets of an ETDump that lead nowhere": Attack(
        "Each offset and length is 0.", _made(lambda: _lying("<I", 0)), COMMANDS
    ),
    "tables of an ETDump that are their vtables": Attack(
        "A table is its own vtable, and leads to itself.", _made(_circle), COMMANDS
    ),
    "long names in an ETDump": Attack(
        "A name of 4 MB has line feeds and a terminal's orders.",
        _made(lambda: built([Block([CALL._replace(name="\n\x1b[31m" * 700_000)])])),
        COMMANDS,
    ),
    "runs of an ETDump that are all different": Attack(
        "2,000 runs of different instructions are compared with an ETRecord's methods.",
        _made(_many_methods, "methods"),
        COMMANDS,
    ),
    "an ETDump in the place of its ETRecord": Attack(
        "The ETRecord is the ETDump itself.",
        lambda: dict.fromkeys(("m.etdp", "m.etrecord"), dump("region").read_bytes()),
        COMMANDS,
    ),
}
