"""What takes as much of something as it is told to, to show that measuring notices."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.costs.measuring import Task


def take(task: Task, folder: str) -> int:
    """Take memory, time or output, or end in another way; the exit status."""
    what, amount = task.words[0], int(task.words[1])
    if what == "memory":
        assert len(bytearray(amount)) == amount
    elif what == "time":
        end = time.process_time() + amount
        while time.process_time() < end:
            pass
    elif what == "output":
        os.truncate(Path(folder) / "stdout", amount)
    elif what == "status":
        return amount
    elif what == "signal":
        os.kill(os.getpid(), amount)
    return 0
