"""The commands, as words, for a model of some kind with the files beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.costs.cases import BASE, COMPANION, LOG, MODEL
from tests.costs.measuring import Task

if TYPE_CHECKING:
    from tests.costs.cases import Files

OUT = "out.ptl"
HONEST = "honest.ptl"
"""An honest archive, which another one is compared with."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "inspect": ("inspect", MODEL),
    "inspect as JSON": ("inspect", MODEL, "--json"),
    "effects": ("inspect", MODEL, "--effects"),
    "effects as JSON": ("inspect", MODEL, "--effects", "--json"),
    "sizes": ("sizes", MODEL),
    "verify": ("verify", MODEL),
    "symbolicate a handle": ("symbolicate", MODEL, "1"),
    "symbolicate a log": ("symbolicate", MODEL),
    "split": ("split", MODEL, "-o", OUT, "-c", COMPANION),
    "shrink": ("shrink", MODEL, "-o", OUT, "--level", "compact"),
    "embed": ("shrink", MODEL, "-o", OUT, "--level", "embed"),
    "look up beside": ("symbolicate", MODEL, "1", "-c", COMPANION),
    "join": ("join", MODEL, "-o", OUT, "-c", COMPANION),
    "restore": ("restore", MODEL, "-o", OUT),
    "migrate": ("migrate", MODEL, "-o", OUT, "--to", "1.9"),
    "convert": ("convert", MODEL, "-o", OUT, "--profile", "mapped"),
    "digest": ("digest", MODEL),
    "digest of debug info": ("digest", "--of", "debug", MODEL),
    "leaks": ("leaks", MODEL),
    "leaks as JSON": ("leaks", MODEL, "--json"),
    "redact": ("redact", MODEL, "-o", OUT, "-c", COMPANION, "--for", "publish", "--partial"),
    "redact names": ("redact", MODEL, "-o", OUT, "-c", COMPANION, "--names", "hash", "--partial"),
    "diff": ("diff", HONEST, MODEL),
    "diff as JSON": ("diff", MODEL, HONEST, "--json"),
}


def task(command: str, files: Files) -> Task:
    """A command run on files; where there is a log, it is on standard input."""
    kept = {name: data for name, data in files.items() if name != LOG}
    if HONEST in COMMANDS[command]:
        kept[HONEST] = BASE.read_bytes()
    return Task(COMMANDS[command], kept, files.get(LOG, b""))


def warm() -> list[Task]:
    """Each command on an honest archive."""
    return [task(command, {MODEL: BASE.read_bytes()}) for command in COMMANDS]
