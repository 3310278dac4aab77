"""The settings of a server, and all bounds on what a request may take."""

from __future__ import annotations

from archive.base.quick_dataclass import dataclass

# --- connections

SECONDS_OF_HEADERS = 10.0
"""Seconds in which the headers of a request must arrive."""
MOST_OF_HEADERS = 1 << 16
"""Bytes of the headers of a request."""
MOST_CONNECTIONS = 1024
"""Connections that are open at a time."""
MOST_OF_A_CLIENT = 256
"""Connections of one address; others are for others."""
SECONDS_OF_IDLENESS = 15
"""Seconds in which a connection that is kept must be used again."""
SECONDS_OF_GOODBYE = 1.0
"""Seconds in which a kept connection may still bring a request once the server ends."""
RETRY_AFTER = 2
"""Seconds after which a client that was refused may ask again."""

# --- bodies and answers

ANSWER_A_BODY = 8
"""An inflated log, and an answer, may be this many times as long as a body may be."""
BODIES_KEPT = 64
"""Bodies of the largest size, or answers of as many bytes, that lie on the disk at a time."""
LEAST_PIECES, BYTES_OF_A_PIECE = 256, 256
"""Pieces in which any body may come, and how long further ones must be on average."""
SECONDS_OF_SILENCE = 10.0
"""Seconds in which the next bytes of a body must arrive."""
SECONDS_OF_REST = 1.0
"""Seconds in which the rest of a refused body is read, so that its sender reads the refusal."""
LEAST_INFLATED, INFLATED_A_BYTE = 1 << 20, 100
"""Bytes that a log may have inflated, and those that each of its packed bytes allows besides."""

# --- requests

MOST_HANDLES = 64
"""Handles of one failure."""
LONGEST_PATTERN = 1_000
"""Characters of a pattern."""
LONGEST_NAME = 255
"""Characters of a file's name, and of an archive's root."""
MOST_VALUES = 1_000
"""Values and commas of a request in JSON."""
LONGEST_DETAIL = 600
"""Characters of a refusal: it goes through a pipe."""
EXCERPT_BYTES = 4 << 20
"""Bytes of explanations on a page of failures."""

# --- workers

SECONDS_OF_START = 60.0
"""Seconds in which a worker must be ready."""
SECONDS_TO_NEXT_START = 1.0
"""Seconds between two tries to start one."""
SECONDS_TO_NEXT_LOOK = 1.0
"""Seconds between two looks at whether idle workers live."""

# --- lines on standard error

MOST_LINES, SECONDS_OF_LINES = 10, 10.0
"""Lines of a kind that are written in so many seconds; further ones are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server.

    Attributes:
        token: what a client must show to add companions; None: nobody may.
        seconds: that a body may take to arrive, an answer to be made, and each piece of it to be sent.
        hosts: the names under which it is asked; empty: any.
        memory: bytes of address space of a worker; unbounded where the system has no such bound.
    """

    store: str
    workers: int = 2
    token: str | None = None
    seconds: float = 60.0
    body: int = 16 << 20
    queue: int = 64
    hosts: frozenset[str] = frozenset()
    memory: int = 4 << 30

    @property
    def answer(self) -> int:
        """Bytes of an inflated log, and of an answer."""
        return ANSWER_A_BODY * self.body

    @property
    def spool(self) -> int:
        """Bytes of bodies and answers that lie on the disk at a time."""
        return BODIES_KEPT * self.body
