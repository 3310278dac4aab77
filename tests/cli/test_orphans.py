"""Workers of a batch end with the process that started them, however it ends, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.processes import becomes

if TYPE_CHECKING:
    from pathlib import Path

SLOW = """
import os, sys, time
from pathlib import Path
from archive.batches.pool import results

def slow(folder):
    Path(folder, f"{os.getpid()}.pid").touch()
    for _ in range(6000):
        time.sleep(0.01)

if __name__ == "__main__":
    list(results(slow, [sys.argv[1]] * 4, 2))
"""


def test_workers_of_a_killed_batch_end(tmp_path: Path) -> None:
    script, out = tmp_path / "slow.py", tmp_path / "out"
    script.write_text(SLOW)
    out.mkdir()
    command = [sys.executable, str(script), str(out)]
    with subprocess.Popen(command, start_new_session=True) as started:
        assert becomes(lambda: len(list(out.glob("*.pid"))) == 2)
        started.send_signal(signal.SIGKILL)
    workers = [int(path.stem) for path in out.glob("*.pid")]
    assert becomes(lambda: not any(map(is_alive, workers)))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (a zombie waits for whoever inherits orphans)
        return file.read().rpartition(b")")[2].split()[0] != b"Z"
