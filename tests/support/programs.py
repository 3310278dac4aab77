"""Random pickles: programs of the opcodes that PyTorch knows, in any mix that leaves one value.

A program is drawn from a seed, so that a failing one can be made again. Texts are often made of
opcodes, and long: they cross the bounds of the windows of :mod:`archive.pickles.scan`.
"""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.strategies import EDGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROTO, STOP = b"\x80\x02", b"."
OPCODES = b"\x80.(KMJ\x8a\x88\x89NGX\x8d)\x85\x86\x87t]lae}dsucR\x81bQqrhj"
CONSTANTS = [b"N", b"\x88", b"\x89", b")", b"\x8a\x00", b"\x8a\x01\xff", b"\x8a\x03\x00\x00\x01"]
FLOATS = [0.0, -0.0, 1.5, -math.inf, math.nan, 5e-324]
GLOBALS = [b"__torch__.m\nNet\xc3\xa9\n", b"torch.jit._pickle\nbuild_intlist\n", b"os\nsystem\n", b"\n\n"]
FOREIGN = bytes(range(0x80, 0x100))
SMALL = 256
LENGTHS = (0, 1, 2, 3, 7, 40, 251, 256, 700)


def integer(value: int, width: int = 0) -> bytes:
    """An integer in the least width that holds it, or in a wider one, as nobody would write it."""
    forms = [(b"K", "<B"), (b"M", "<H"), (b"J", "<i"), (b"\x8a\x08", "<q")]
    for opcode, layout in forms[width:]:
        try:
            return opcode + struct.pack(layout, value)
        except struct.error:
            continue
    raise ValueError(value)


def text(data: bytes, *, long: bool = False) -> bytes:
    """A text, as BINUNICODE or BINUNICODE8."""
    return (b"\x8d" + len(data).to_bytes(8, "little") if long else b"X" + struct.pack("<I", len(data))) + data


def put(index: int, *, long: bool = False) -> bytes:
    """A memo entry for what stands on the stack."""
    return b"r" + struct.pack("<I", index) if long or index >= SMALL else b"q" + bytes([index])


def get(index: int, *, long: bool = False) -> bytes:
    """A read of a memo entry."""
    return b"j" + struct.pack("<I", index) if long or index >= SMALL else b"h" + bytes([index])


@dataclass
class Program:
    """A program in the making, with the kinds of the values on its stack, level by level."""

    random: random.Random
    lengths: Sequence[int] = LENGTHS
    ascii: bool = False
    out: list[bytes] = field(default_factory=lambda: [PROTO])
    levels: list[list[str]] = field(default_factory=lambda: [[]])
    memo: dict[int, str] = field(default_factory=dict)

    def run(self, steps: int) -> bytes:
        """A pickle of about that many instructions."""
        for _ in range(steps):
            self.random.choice(self.possible())()
        while len(self.levels) > 1:
            self.close("t", "tuple")
        if len(self.levels[0]) != 1:
            self.out.insert(1, b"(")
            self.out.append(b"t")
        return b"".join(self.out) + STOP

    @property
    def level(self) -> list[str]:
        return self.levels[-1]

    def possible(self) -> list[Callable[[], None]]:
        """What may stand next. Values are the likelier, the fewer there are."""
        steps = [self.atom, self.atom, self.mark]
        if self.memo:
            steps.append(self.read)
        if len(self.levels) > 1:
            steps += self.closings()
        if self.level:
            steps += [self.note, self.take, *([self.take] if len(self.level) > 3 else [])]
        return steps

    def closings(self) -> list[Callable[[], None]]:
        """Ends of the innermost MARK: a container of its own, or one that stands below is filled."""
        even, below = len(self.level) % 2 == 0, self.levels[-2][-1:]
        ends: list[Callable[[], None]] = [lambda: self.close("t", "tuple"), lambda: self.close("l", "list")]
        if even:
            ends.append(lambda: self.close("d", "dict"))
        if below == ["list"]:
            ends.append(lambda: self.close("e", ""))
        if below == ["dict"] and even:
            ends.append(lambda: self.close("u", ""))
        return ends

    def close(self, opcode: str, kind: str) -> None:
        self.levels.pop()
        self.emit(opcode.encode(), kind)

    def emit(self, code: bytes, kind: str = "") -> None:
        self.out.append(code)
        if kind:
            self.level.append(kind)

    def mark(self) -> None:
        if len(self.levels) < 60:
            self.emit(b"(")
            self.levels.append([])

    def atom(self) -> None:
        pick = self.random.randrange(9)
        if pick < 3:
            self.emit(integer(self.random.choice(EDGES), self.random.randrange(4) if pick else 0), "int")
        elif pick < 6:
            data = bytes(self.random.choices(OPCODES, k=self.random.choice(self.lengths)))
            data = data.translate(None, FOREIGN) if self.ascii else data
            self.emit(text(data, long=pick == 3), "text")
        elif pick == 6:
            self.emit(b"G" + struct.pack(">d", self.random.choice(FLOATS)), "float")
        elif pick == 7:
            self.emit(b"c" + self.random.choice(GLOBALS[self.ascii :]), "global")
        else:
            constant = self.random.choice(CONSTANTS)
            self.emit(*self.random.choice([(b"]", "list"), (b"}", "dict"), (constant, "constant")]))

    def note(self) -> None:
        index = self.random.choice([0, 1, len(self.memo), 255, 256, 0xFFFF_FFFF])
        self.emit(put(index, long=self.random.random() < 0.2))
        self.memo[index] = self.level[-1]

    def read(self) -> None:
        index = self.random.choice(list(self.memo))
        self.emit(get(index, long=self.random.random() < 0.2), self.memo[index])

    def take(self) -> None:
        """Instructions that take one to three values off the stack."""
        two, three = self.level[-2:], self.level[-3:]
        ways = [(b"\x85", 1, "tuple"), (b"Q", 1, "persistent")]
        if len(two) == 2:
            ways += [(b"\x86", 2, "tuple"), (b"R", 2, "object"), (b"\x81", 2, "object")]
            ways += [(b"a", 1, "")] * (2 * (two[0] == "list")) + [(b"b", 1, "")] * (2 * (two[0] == "object"))
        if len(three) == 3:
            ways += [(b"\x87", 3, "tuple")] + [(b"s", 2, "")] * (3 * (three[0] == "dict"))
        code, count, kind = self.random.choice(ways)
        del self.level[-count:]
        self.emit(code, kind)


def program(seed: int, steps: int, lengths: Sequence[int] = LENGTHS, *, ascii_only: bool = False) -> bytes:
    """The pickle that a seed stands for."""
    return Program(random.Random(seed), lengths, ascii_only).run(steps)  # noqa: S311 (not for secrets)
