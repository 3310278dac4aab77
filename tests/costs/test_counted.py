"""Whatever a command takes memory for, the allowance of some file is asked: none is counted by nobody."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from archive.base import memory
from tests.support.commands import run
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from archive.base.limits import Allowance

FILES = ("oracles/plain_stack.ptl", "kinds/checkpoint.pt", "kinds/package.pt", "exported/shop.pt2")
COMMANDS = (
    *("inspect {}", "inspect {} --inventory --digest --leaks --verify", "report {} -o page.html"),
    *("verify {}", "sizes {}", "leaks {} --deep", "leaks {} --review review.jsonl"),
    *("digest {}", "digest {} --of debug", "digest {} --of weights", "diff {} {}", "symbolicate {} 1"),
    *("split {} -o out -c m.ptdbg", "redact {} -o out -c m.ptdbg --names hash", "shrink {} -o out"),
    *("shrink {} -o out --level embed && restore out -o back", "migrate {} -o out --to latest"),
    "split {} -o out -c m.ptdbg && join out -c m.ptdbg -o back",
    "split {} -o out -c m.ptdbg && verify m.ptdbg && sizes m.ptdbg && inspect m.ptdbg && leaks m.ptdbg",
    "split {} -o out -c m.ptdbg && convert m.ptdbg -o n.ptdbg --layout mapped && redact m.ptdbg -o r.ptdbg",
    "split {} -o out -c m.ptdbg && store add m.ptdbg --store s && store check --store s",
)


@pytest.fixture
def uncounted(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The places that took memory while no allowance was the current one."""
    found = set[str]()

    def noted() -> Allowance:
        if memory._CURRENT.get() is None:
            frame = sys._getframe(2)
            found.add(f"{frame.f_code.co_filename}: {frame.f_code.co_name}")
        return current()

    def take(*arguments: object, **named: object) -> None:
        noted().take(*arguments, **named)  # type: ignore[arg-type]

    current = memory.current
    monkeypatch.setattr(memory, "take", take)
    monkeypatch.setattr(memory, "current", noted)
    return found


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", FILES)
def test_nothing_is_counted_by_nobody(
    name: str, command: str, uncounted: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in command.split(" && "):
        done = run(*(word.format(FIXTURES / name) for word in words.split()))
        assert done.returncode in {0, 1, 2}, done.stderr
        assert b"No such option" not in done.stderr, done.stderr
    assert uncounted == set()


def test_it_would_be_seen(uncounted: set[str]) -> None:
    memory.take(1)
    assert len(uncounted) == 1
