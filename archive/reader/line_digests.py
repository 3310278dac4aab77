"""Digests of the lines of generated code: they show whether a log quotes a model's code, without the code.

A companion does not hold the code, so a log's excerpt cannot be compared with it. A store that is given the
archive keeps a digest of each line; ``split --fingerprints`` puts them into the companion. A digest is the
first ``BYTES`` bytes of the line's blake2b: another line passes for it once in 16,777,216 times. It has no
key, so that releases of a model share it; whoever guesses a line can check that the code has it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.base.columns import Ints

BYTES = 3


class LineDigests:
    """The lines of a code record, known only by their digests.

    Args:
        digests: of the lines, from the first (n).
    """

    def __init__(self, digests: Ints) -> None:
        self._digests = digests

    def __len__(self) -> int:
        return len(self._digests)

    def is_line(self, number: int, line: bytes) -> bool:
        """Whether line ``number``, counted from 1, has the digest of a line."""
        return 0 < number <= len(self) and int(self._digests[number - 1]) == _digest_of(line)

    def ends_of(self, lines: list[bytes], near: int) -> list[int]:  # noqa: ARG002 (all are compared at once)
        """The numbers of the lines at which all of some lines end."""
        starts = np.arange(len(self) - len(lines) + 1)
        for at, line in enumerate(lines):
            starts = starts[self._digests[starts + at] == _digest_of(line)]
        return (starts + len(lines)).tolist()


def digests_of(code: bytes) -> Ints:
    """The digests of the lines of some code (n). A last newline ends the last line."""
    lines = code.removesuffix(b"\n").split(b"\n") if code else []
    return np.fromiter(map(_digest_of, lines), np.int64, len(lines))


def packed_digests(digests: Ints) -> bytes:
    """Digests, concatenated."""
    return np.ascontiguousarray(digests, "<u4").view(np.uint8).reshape(-1, 4)[:, :BYTES].tobytes()


def unpacked_lines(lines: Mapping[str, bytes]) -> dict[str, LineDigests]:
    """The lines of each code record, from their concatenated digests."""
    unpacked = {}
    for name, data in lines.items():
        if len(data) % BYTES:
            raise ArchiveError(
                place=name, expected=f"digests of {BYTES} bytes", found=counted(len(data), "byte")
            )
        digests = np.zeros((len(data) // BYTES, 4), np.uint8)
        digests[:, :BYTES] = np.frombuffer(data, np.uint8).reshape(-1, BYTES)
        unpacked[name] = LineDigests(digests.view("<u4").ravel().astype(np.int64))
    return unpacked


def _digest_of(line: bytes) -> int:
    return int.from_bytes(blake2b(line, digest_size=BYTES).digest(), "little")
