"""A page about a hostile file costs no more than other commands may, and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.base import memory
from archive.base.limits import Limits
from archive.page.failures import FRAME_FILE
from archive.page.shown import Shown
from archive.page.sources import ArchiveSources
from tests.attacks.attack import problems
from tests.attacks.catalogue import ATTACKS
from tests.attacks.running import Runner, run_attack
from tests.support.sampling import sampled
from tests.support.tampering import STACK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDINGS = (".pt", ".pt2", ".ptl", ".ptdbg", ".etrecord")
VERBS = ("inspect ", "verify ", "sizes ")
NAMES = sampled(
    (name for name, attack in ATTACKS.items() if any(one.startswith(VERBS) for one in attack.commands)), 8
)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with Runner() as started:
        started.calibrate(tmp_path_factory.mktemp("calibration"))
        yield started


@pytest.mark.parametrize("name", NAMES)
def test_a_page_costs_no_more_than_its_budget(name: str, runner: Runner, tmp_path: Path) -> None:
    files = ATTACKS[name].files()
    target = next((file for file in files if file.endswith(ENDINGS) and "/" not in file), None)
    if target is None:
        pytest.skip("it attacks by something else than a model")
    commands = (f"report {target} -o r.html --force", f"sizes {target} --by weights")
    attack = ATTACKS[name]._replace(commands=commands, statuses=frozenset({0, 1, 2}))
    for command, outcome in run_attack(runner, attack, files, tmp_path):
        assert (command, problems(attack, files, outcome)) == (command, [])


def test_source_text_beyond_its_share_is_counted() -> None:
    with archive.open(STACK, limits=Limits(memory=1 << 22)) as opened, memory.charged(opened.allowance):
        whole = ArchiveSources(opened)
        assert whole.left_out == 0
    with archive.open(STACK, limits=Limits(compared_bytes=300)) as opened, memory.charged(opened.allowance):
        some = ArchiveSources(opened)
    assert some.left_out > 0
    assert sum(len(file.text) for file in some.files) < sum(len(file.text) for file in whole.files)
    assert sum(len(file.text) for file in some.files) <= 300 + len(some.files)


@pytest.mark.parametrize("name", [b"a" * (1 << 20), "a" * (1 << 20), b"a/" * (1 << 19) + b"b.py"])
def test_folders_of_long_names_are_taken_off_in_one_pass(name: bytes | str) -> None:
    """With a search that began anew at each byte, a name of 64 KiB took half a minute."""
    last = Shown.BASENAME.shown(name) if isinstance(name, bytes) else Shown.BASENAME.file(name)
    assert last == (b"b.py" if isinstance(name, bytes) and b"/" in name else name)


def test_folders_of_long_lines_are_taken_off_in_one_pass() -> None:
    slashes = b'  File "' + b"/" * (1 << 18)
    assert FRAME_FILE.sub(rb"\1", slashes) == slashes
    assert FRAME_FILE.sub(rb"\1", slashes + b'a.py", line 3') == b'  File "a.py", line 3'
