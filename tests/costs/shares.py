"""The share of its allowance of memory that each command asks for, on a model.

Allowances count what code says that it is about to make, not what the machine takes: shares are the same
on every machine and in every run, and cost nothing to measure.
"""

from __future__ import annotations

import contextlib
import tracemalloc
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import archive
from archive.base.limits import Allowance, Limits
from archive.cli import options
from tests.support.commands import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


class Asked(Allowance):
    """An allowance that remembers the most that was asked for, refused or not."""

    __slots__ = ("asked",)

    def __init__(self, limits: Limits, memory: int) -> None:
        super().__init__(limits, memory)
        self.asked = 0

    def take(self, count: int, what: str = "", record: str | None = None, place: str | None = None) -> None:
        self.asked = max(self.asked, self.taken + count)
        super().take(count, what, record, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Limits):
    """The default bounds, which remember the allowances that they gave."""

    given: list[Asked] = field(default_factory=list, compare=False)

    def allowance(self, size: int) -> Allowance:
        """An allowance of as much memory as any other."""
        self.given.append(Asked(self, Limits.allowance(self, size).memory))
        return self.given[-1]


TRACEBACK = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "{}", line 9, in forward
    x = 1
        ~ <--- HERE
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x4 and 3x3)
"""


class Share(NamedTuple):
    """What came of a command.

    Attributes:
        command: its name in ``COMMANDS``.
        status: its exit status.
        share: of its allowance, the most that it asked for; 0.0 where it needs none.
        allocated: of the same, the most that Python and NumPy allocated; 0.0 where that was not measured.
        said: what it printed as its errors.
    """

    command: str
    status: int
    share: float
    allocated: float
    said: str


EMBEDDED, MIGRATED, SPLIT, COMPANION, MAPPED = "embedded", "migrated", "split", "companion", "mapped"
"""What is made of a model, which later commands read."""
FORMS = {
    "inspect": "inspect {}",
    "inspect as JSON": "inspect {} --json",
    "effects": "inspect {} --effects",
    "sizes": "sizes {}",
    "sizes by part": "sizes {} --by part",
    "sizes by module": "sizes {} --by module",
    "sizes by source": "sizes {} --by source",
    "verify": "verify {}",
    "verify as SARIF": "verify {} --sarif",
    "leaks": "leaks {}",
    "leaks, deep": "leaks {} --deep --json",
    "digest": "digest {}",
    "digest of debug info": "digest --of debug {}",
    "a handle": "symbolicate {} HANDLE",
    "a position": "symbolicate {} --at RECORD:9",
    "a log": "symbolicate {} --log LOG",
}
"""The commands that read one file, of any form."""
TARGETS = ("1.4", "1.6", "1.8", "1.10", "1.12", "2.13", "pair-rows", "inline-rows", "string-table")
MAKING = {
    "split": f"split model -o {SPLIT} -c {COMPANION}",
    "split, mapped": f"split model -o out -c {MAPPED} --layout mapped",
    "split, --max": "split model -o out -c other --max",
    "split, no handles": "split model -o out -c other --handles drop",
    "split, all of a program": "split model -o out -c other --drop modules",
    "compact": "shrink model -o compact",
    "embed": f"shrink model -o {EMBEDDED} --level embed",
    "migrate": f"migrate model -o {MIGRATED} --to 1.9 --lossy",
    **{f"migrate to {to}": f"migrate model -o out --to {to} --lossy" for to in TARGETS},
    "migrate, nothing aside": "migrate model -o out --to 1.9 --lossy --no-aside",
    "migrate, dry": "migrate model -o out --to 1.9 --dry-run",
    "canonical": "convert model -o out --canonical",
    "publish": "redact model -o redacted -c other --for publish --partial",
    "vendor": "redact model -o out -c other --for vendor --partial",
    "names": "redact model -o out -c other --names hash --partial",
    "paths": "redact model -o out -c other --paths relative --source lines --partial",
    "diff": "diff model neighbour",
    "diff as JSON": "diff neighbour model --json",
    "diff with itself": "diff model model",
    "diff with the smaller": f"diff model {SPLIT}",
    "diff with the redacted": "diff model redacted",
    "diff with the compact": "diff model compact",
    "diff with the migrated": f"diff model {MIGRATED}",
    "join": f"join {SPLIT} -c {COMPANION} -o out",
    "join, mapped": f"join {SPLIT} -c {MAPPED} -o out",
    "restore": f"restore {EMBEDDED} -o out",
    "restore a migrated one": f"migrate {MIGRATED} -o out --to original",
    "migrate a migrated one": f"migrate {MIGRATED} -o out --to 2.13 --lossy",
    "embed a migrated one": f"shrink {MIGRATED} -o out --level embed",
    "split a migrated one": f"split {MIGRATED} -o out -c other",
    "compact a migrated one": f"shrink {MIGRATED} -o out",
    "publish an embedded one": f"redact {EMBEDDED} -o out -c other --for publish --partial",
    "publish a migrated one": f"redact {MIGRATED} -o out -c other --for publish --partial",
    "split an embedded one": f"split {EMBEDDED} -o out -c other",
    "to mapped": f"convert {COMPANION} -o out --layout mapped",
    "to packed": f"convert {MAPPED} -o out --layout packed",
    "to packed, --max": f"convert {MAPPED} -o out --layout packed --max",
    "vendor's companion": f"redact {COMPANION} -o out --for vendor --partial",
    "public companion": f"redact {COMPANION} -o out --for publish --partial",
    "vendor's companion, mapped": f"redact {MAPPED} -o out --for vendor --partial",
    "diff with both": f"diff {SPLIT} neighbour -c {COMPANION}",
    "a handle beside": f"symbolicate {SPLIT} HANDLE -c {COMPANION}",
    "a log beside": f"symbolicate {SPLIT} --log LOG -c {COMPANION}",
    "store add": f"store add {COMPANION} --store kept",
    "store add a model": "store add neighbour --store kept",
    "store ls": "store ls --store kept",
    "store check": "store check --store kept",
    "a log, of a store": "symbolicate kept --log LOG",
    "store gc": "store gc --store kept",
}
"""The commands that make other files of a model, and those that read several."""
COMMANDS = {
    **{name: words.format("model") for name, words in FORMS.items()},
    **MAKING,
    **{
        f"{name}, of the {form}": words.format(form)
        for form in (EMBEDDED, MIGRATED, COMPANION, MAPPED, SPLIT)
        for name, words in FORMS.items()
    },
}


MAKERS = {
    EMBEDDED: "embed",
    MIGRATED: "migrate",
    SPLIT: "split",
    COMPANION: "split",
    MAPPED: "split, mapped",
    "redacted": "publish",
    "compact": "compact",
    "kept": "store add",
}
"""The commands that make what others read."""


def with_makers(names: Iterable[str]) -> list[str]:
    """Some commands in their order, and before them those that make what they read."""
    wanted = {*names}
    for name in reversed(COMMANDS):
        if name in wanted:
            wanted |= {MAKERS[word] for word in COMMANDS[name].split() if word in MAKERS}
    return [name for name in COMMANDS if name in wanted]


def _placed(folder: Path, model: bytes, neighbour: bytes) -> dict[str, str]:
    """Put a model, one to compare it with, and a log into a folder; what words of commands stand for."""
    (folder / "model").write_bytes(model)
    (folder / "neighbour").write_bytes(neighbour)
    with archive.open(folder / "model") as opened:
        handles = [f"{handle}" for handle in islice(opened.handles, 300)] or ["1"]
        code = next((name for name in opened.records if name.startswith("code/")), "code/none.py")
    failures = [f"Debug info for handle(s): debug_handles:{{{one}}}, was not found.\n" for one in handles]
    (folder / "log").write_text("".join([*failures, TRACEBACK.format(code)]), encoding="utf-8")
    return {"HANDLE": handles[-1], "RECORD": code, "LOG": "log"}


def shares(
    folder: Path, model: bytes, neighbour: bytes, names: Iterable[str] = (), *, traced: bool = False
) -> Iterator[Share]:
    """The share of each command, run one after another in a folder.

    Args:
        folder: an empty one.
        model: an archive.
        neighbour: another one, which it is compared with.
        names: of commands, to which those are added that they need; all by default.
        traced: whether to measure what is allocated, too, which takes several times as long.
    """
    words = _placed(folder, model, neighbour)
    with contextlib.chdir(folder):
        for name in with_makers(names or COMMANDS):
            command = COMMANDS[name]
            for word, value in words.items():
                command = command.replace(word, value)
            yield _share(name, command.split(), traced=traced)


def _share(name: str, words: Sequence[str], *, traced: bool) -> Share:
    """The share of a command that is run in this process."""
    watched = Watched()
    writes = "-o" in words
    with mock.patch.object(options, "DEFAULT_LIMITS", watched):
        if traced:
            tracemalloc.start()
        done = run(*words, *(["--force"] if writes else []))
        peak = 0
        if traced:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    memory = max((one.memory for one in watched.given), default=1)
    asked = max((one.asked / one.memory for one in watched.given), default=0.0)
    return Share(name, done.returncode, asked, peak / memory, done.stderr.decode(errors="replace"))
