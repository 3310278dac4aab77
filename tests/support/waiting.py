"""Waiting for what another process does: until it has, on a machine of any speed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 120.0
"""Seconds after which something hangs; nothing that a test expects takes that long."""


def becomes(holds: Callable[[], bool]) -> bool:
    """Whether something holds at last."""
    until = time.monotonic() + PATIENCE
    while not (is_so := holds()) and time.monotonic() < until:
        time.sleep(0.01)
    return is_so
