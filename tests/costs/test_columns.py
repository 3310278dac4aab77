"""Columns of all records are passed over once, not for each record: of twice as many, 2.3 times the items.

What numpy's functions are given is counted: a step of Python may hide a pass over everything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.commands import run
from tools.bench.many import code

if TYPE_CHECKING:
    from pathlib import Path

MOST = 2.3
RECORDS = 200
PASSES = ("diff", "cumsum", "repeat", "flatnonzero", "argsort", "sort", "bincount", "unique", "concatenate")
"""Functions that look at each item."""
COMMANDS = (
    *("inspect {}", "verify {}", "digest {}", "leaks {}", "report {} -o out --force"),
    *(
        "split {} -o out -c aside --force",
        "shrink {} -o out --force",
        "migrate {} -o out --to latest --force",
    ),
    *("redact {} -o out -c aside --paths basename --force", "shrink {} -o out --level embed --force"),
)


@pytest.fixture
def items(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many items each function was given."""
    counted = Counter[str]()

    def watch(name: str) -> None:
        made = getattr(np, name)

        def counting(values: Any, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 (as numpy's)
            parts = values if name == "concatenate" else (values,)
            counted[name] += sum(map(np.size, parts))
            return made(values, *arguments, **named)

        monkeypatch.setattr(np, name, counting)

    for name in PASSES:
        watch(name)
    return counted


@pytest.mark.parametrize("command", COMMANDS)
def test_twice_the_records_are_twice_the_items(
    command: str, items: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = []
    for count in (RECORDS, 2 * RECORDS):
        path = code(tmp_path / f"{count}.pt", count)
        items.clear()
        done = run(*(word.format(path) for word in command.split()))
        assert done.returncode in {0, 1}, done.stderr
        taken.append(Counter(items))
    few, many = taken
    assert {name: (few[name], many[name]) for name in many if many[name] > MOST * few[name]} == {}
