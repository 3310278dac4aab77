"""Changes of logs: lines, digits, marks, and the words around them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.fuzz.mutations import changed_bytes, changed_list, number

if TYPE_CHECKING:
    from random import Random

DIGITS = re.compile(rb"\d+")
POOL: tuple[bytes, ...] = (
    b"\n",
    b"\r\n",
    b"  Debug info for handle(s): debug_handles:{1494}, was not found.\n",
    b"  Debug info for handle(s): debug_handles:{14941445}, was not found.\n",
    b"  Debug info for handle, 1494, not found.\n",
    b"  Debug info for handle(s): debug_handles:{" + b"1" * 30 + b"}, was not found.\n",
    b"Traceback of TorchScript (most recent call last):\n",
    b"Traceback of TorchScript, serialized code (most recent call last):\n",
    b'  File "code/__torch__/models.py", line 3, in forward\n',
    b"    ~~~~~~~~~~~ <--- HERE\n",
    b"                ~~\n",
    b"RuntimeError: expected\n",
    b"W/app: ",
    b"\xff\xfe\x1b[31m\n",
)


def changed_log(chance: Random, data: bytes) -> bytes:
    """A log of which some lines are others."""
    lines: list[bytes] = data.splitlines(keepends=True)
    lines = changed_list(chance, lines, POOL, lambda line: _changed(chance, line))
    return b"".join(lines)[: 1 << 13]


def _changed(chance: Random, line: bytes) -> bytes:
    """A line with another number, or other bytes."""
    found = list(DIGITS.finditer(line))
    if not found or not chance.randrange(4):
        return changed_bytes(chance, line)
    one = chance.choice(found)
    kind = chance.randrange(3)
    digits = b"%d" % abs(number(chance, int(one[0][:18])))
    if kind == 1:
        digits = one[0] + digits
    elif kind == 2:
        digits = one[0] * chance.randrange(1, 5)
    return line[: one.start()] + digits + line[one.end() :]
