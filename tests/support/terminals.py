"""Terminals for commands that are tested: what is written to one is read as it comes."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Terminal:
    """A terminal.

    Attributes:
        file: the descriptor by which programs write to it, and read its keyboard.
        shown: what was written, once the block has ended; line ends are as they were written.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.shown = b""


@contextmanager
def terminal(lines: int = 24, columns: int = 80) -> Iterator[Terminal]:
    """A terminal for the time of a block, at whose end no program may use it any more."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # line ends stay as they are
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    made = Terminal(theirs)

    def read() -> None:
        with suppress(OSError):  # Linux says so when the last writer has closed it
            while part := os.read(ours, 1 << 16):
                made.shown += part

    reader = Thread(target=read)
    reader.start()
    try:
        yield made
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
