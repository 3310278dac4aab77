"""Each pass over letters, names, records, keys or texts is linear: of twice the input, 2.3 times the steps.

A step is a line of Python that runs, or a call: the same number on any machine. What C code repeats is not
counted: patterns have tests of their own (``test_patterns.py``), and keys that hash alike are compared by
Python here, as they are objects.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import pytest

from archive.base.keys import text_key
from archive.formats.tensors.tensor import Tensor
from archive.privacy.redact.search import Search
from tests.attacks.many import (
    ALIKE,
    LIES,
    code_letters,
    code_records,
    empty_code,
    empty_records,
    functions,
    keys_alike,
    lines_of_paths,
    tensors,
    words_of_keys,
)
from tests.support.commands import run
from tests.support.cost import loops_below
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

MOST = 2.3
SIZE, FEW = 60, 1_000
"""Of what is doubled; and steps that nobody minds."""


def steps(*words: str) -> int:
    """The steps of a command."""
    count = 0

    def see(_frame: FrameType, _event: str, _argument: object) -> Any:  # noqa: ANN401 (itself)
        nonlocal count
        count += 1
        return see

    before = sys.gettrace()
    sys.settrace(see)
    try:
        run(*words)
    finally:
        sys.settrace(before)
    return count


KINDS: dict[str, Callable[[int], bytes]] = {
    made.__name__: made
    for made in (
        *(code_records, code_letters, functions, empty_records, empty_code),
        *(words_of_keys, keys_alike, tensors, lines_of_paths),
    )
}
COMMANDS = (
    "inspect",
    "verify",
    "digest",
    "leaks",
    "sizes --by module",
    "diff model.pt",
    "diff less.pt",
    "split -o out.pt -c out.ptdbg --force",
    "report -o out.html --force",
)


@pytest.mark.parametrize(("kind", "command"), crossed(KINDS, COMMANDS, most=24))
def test_twice_as_much_takes_little_more_than_twice_the_steps(
    kind: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *rest = command.split()

    def write(times: int) -> None:
        (tmp_path / "model.pt").write_bytes(KINDS[kind](times))
        (tmp_path / "less.pt").write_bytes(KINDS[kind](times - 1))

    write(SIZE)
    run(name, "model.pt", *rest)  # what is done once a process is no step of the file's
    found = []
    for times in (SIZE, 2 * SIZE, 4 * SIZE):
        write(times)
        found.append(steps(name, "model.pt", *rest))
    once, twice, again_twice = found
    # So what does not grow counts for nothing.
    assert again_twice - twice <= MOST * (twice - once) + FEW


# --- keys


def test_keys_that_numbers_make_do_not_hash_alike() -> None:
    assert len({hash(shape) for shape in ALIKE}) == 1
    assert len({hash(text_key(*shape)) for shape in ALIKE}) == len(ALIKE)
    rows = [Tensor("float32", (1,) * 12, strides, 0, "data/0") for strides in ALIKE]
    assert len({hash(row) for row in rows}) == len({row.key for row in rows}) == len(rows)
    assert len({Tensor("float32", strides, strides, 0, "").kind for strides in ALIKE}) == len(rows)


# --- long texts


def test_long_texts_are_not_compared_at_each_place_that_begins_like_them() -> None:
    """Twelve texts of 4,000 letters, in a text of one letter: 10 µs a byte, if each is compared there."""
    texts = [b"a" * (2_000 + at) + b"b" + b"a" * 2_000 for at in range(12)]
    data = memoryview(b"a" * 400_000 + texts[3])
    with loops_below(100):
        assert {*Search(texts).found(data)} == {(400_003 - at, one) for at, one in enumerate(texts)}


@pytest.mark.parametrize("compared", [0, 1 << 22])
def test_texts_are_found_wherever_they_stand(compared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.privacy.redact.search.COMPARED", compared)
    texts = {
        bytes(some)
        for size in (3, 7, 8, 15, 16)
        for some in itertools.islice(itertools.product(b"ab", repeat=size), 5)
    }
    data = b"abba" + b"a" * 40 + b"baab" * 5
    expected = sorted((at, one) for one in texts for at in range(len(data)) if data.startswith(one, at))
    assert sorted(Search(texts).found(memoryview(data))) == expected


# --- what is refused, not an error of this program


@pytest.mark.parametrize("name", LIES)
def test_what_lies_is_refused_by_every_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.pt2").write_bytes(LIES[name]()["m.pt2"])
    commands = [*COMMANDS[:5], "report -o out.html", "diff m.pt2"]
    for command in commands:
        first, *rest = command.split()
        done = run(first, "m.pt2", *rest)
        assert (command, done.returncode in {0, 1, 2}, done.stderr[-300:]) == (
            command,
            True,
            done.stderr[-300:],
        )
    assert run("digest", "m.pt2").returncode == 2
