"""``migrate`` of a folder, interrupted, and gone on with."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import outcomes, well
from tests.support.corpus import RELEASES
from tests.support.many_archives import beside
from tests.support.migrated_folders import again, contents
from tests.support.sampling import sampled
from tests.support.waiting import becomes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A folder that takes some time, and what is made of it without an interruption."""
    folder = tmp_path_factory.mktemp("many")
    sources = sorted(RELEASES.glob("torch-1.[89].0/*.pt*"))
    (folder / "models" / "inner").mkdir(parents=True)
    for source in sources:
        shutil.copy(source, folder / "models" / "inner" / f"{source.parent.name}-{source.name}")
    well("migrate", folder / "models", "-o", folder / "whole", "--to", "2.13", "-j", 1)
    return folder / "models", contents(folder / "whole")


MAIN = "from archive.cli import main; main()"


def started(models: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "migrate", str(models), "-o", str(out), "--to", "2.13", "-j", "2"],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    ("number", "to_all"),
    sampled([(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGKILL, True)], most=1),
    ids=str,
)
def test_after_an_interruption_the_end_is_the_same(
    number: signal.Signals,
    to_all: bool,  # noqa: FBT001
    many: tuple[Path, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    models, expected = many
    out = tmp_path / "out"
    interrupted = 0
    for least in (1, len(expected) // 2):
        with started(models, out) as command:
            assert becomes(lambda: _told(out) >= least or command.poll() is not None)  # noqa: B023 (called at once)
            if to_all:
                os.killpg(command.pid, number)
            else:
                command.send_signal(number)
            said = command.communicate()[1]
        interrupted += command.returncode != 0
        if command.returncode == 130:
            assert said.endswith(b"debug-archive: interrupted\n")
        made = contents(out)
        whole = {name: data for name, data in made.items() if name in expected}
        assert whole == {name: expected[name] for name in whole}
        assert number == signal.SIGKILL or whole == made  # no drafts stay behind
    assert interrupted == 2
    assert 0 < len(whole) < len(expected)

    with started(models, out) as command:
        told, said = command.communicate()
    assert (command.returncode, said) == (0, b"")
    assert 0 < outcomes(told.decode())["same"] < len(expected)
    made = contents(out)
    assert {name: made[name] for name in expected} == expected
    assert number == signal.SIGKILL or made == expected
    assert outcomes(again(models, out).stdout) == {"same": len(expected)}


def _told(out: Path) -> int:
    path = beside(out)
    return path.read_bytes().count(b"\n") if path.exists() else 0
