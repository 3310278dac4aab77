"""An attack: files that ask for much or lie, commands that read them, and bounds on what may come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.attacks.running import Outcome

MIB = 1 << 20
LEAST, PER_BYTE = 64 * MIB, 256
"""The budget: bytes that any file may cost, and bytes more for each byte of the file."""
MARKER = "EXECUTED"
"""The file that payloads make in the folder where they are run."""
STATUSES = frozenset({0, 1, 2})
"""Well, findings, refused. Any other status is a crash, or the end by a signal."""


class Attack(NamedTuple):
    """An attack.

    Attributes:
        says: one sentence.
        files: makes the files, by name.
        commands: words behind ``debug-archive``, as a shell splits them; run in the files' folder.
        log: what stands on the commands' standard input.
        loops: CPU time that a command may take, in loops of :mod:`tests.support.cost`: at least four
            times what it takes, for it is to show what grows with the square of a file, or never ends.
        statuses: exit statuses that a command may end with.
    """

    says: str
    files: Callable[[], dict[str, bytes]]
    commands: tuple[str, ...]
    log: bytes = b""
    loops: int = 1_000
    statuses: frozenset[int] = STATUSES

    def budget(self, files: dict[str, bytes]) -> int:
        """Bytes of memory above the start-up's, and of output, that a command may cost."""
        return LEAST + PER_BYTE * (sum(map(len, files.values())) + len(self.log))


def problems(attack: Attack, files: dict[str, bytes], outcome: Outcome) -> list[str]:
    """All that should not have come of a command, one line each."""
    budget = attack.budget(files)
    found = []
    if outcome.status not in attack.statuses:
        found.append(f"exit status {outcome.status}")
    if "Traceback (most recent call last)" in outcome.errors:
        found.append(f"a traceback: {outcome.errors.splitlines()[-1]}")
    if outcome.memory > budget:
        found.append(f"{outcome.memory / MIB:,.0f} MiB of memory, not {budget / MIB:,.0f}")
    if outcome.loops > attack.loops:
        found.append(f"{outcome.loops:,.0f} loops of CPU, not {attack.loops:,}")
    if outcome.output > budget:
        found.append(f"{outcome.output:,} bytes of output, not {budget:,}")
    if outcome.executed:
        found.append("the payload ran")
    return found
