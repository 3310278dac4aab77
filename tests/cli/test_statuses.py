"""Exit statuses: the policy, the page that says it, and a command for each of its rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

import archive
from archive.cli.demo import main_job
from archive.cli.status import Cause, ExitStatus
from tests.support.commands import run, well
from tests.support.corpus import FIXTURES, KINDS, ORACLES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(archive.__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "statuses.md"
MODEL = ORACLES / "plain_stack.ptl"
OTHER = RELEASES / "torch-2.13.0" / "nested.ptl"
UNKNOWN = b"RuntimeError: no\n  Debug info for handle(s): debug_handles:{-1}, was not found.\n"


def cut(folder: Path) -> Path:
    """A folder with a model, and one that is cut short."""
    shutil.copy(MODEL, folder)
    (folder / "cut.ptl").write_bytes(OTHER.read_bytes()[:-100])
    return folder


def no_debug_info(folder: Path) -> int:
    dumps, before = FIXTURES / "executorch", folder / "before.json"
    words = ["profile", dumps / "fork.etdp", "-c", dumps / "fork.etrecord"]
    done = run(*words, "--json")
    before.write_bytes(done.stdout)
    assert run(*words, "--base", before).returncode == done.returncode
    return done.returncode


def parts(folder: Path) -> int:
    """One result of a model that is off by 2 % in another form of it."""
    torch = pytest.importorskip("torch", exc_type=ImportError)
    forms = []
    for number in (1.0, 1.02):
        model = torch.nn.Linear(4, 4)
        torch.manual_seed(0)
        torch.nn.init.uniform_(model.weight)
        model.weight.data *= number
        model.bias.data.fill_(0)
        forms.append(folder / f"{number}.pt")
        torch.jit.trace(model, torch.rand(3, 4)).save(forms[-1])
    return run("run", forms[1], "--base", forms[0], "--input", "3x4").returncode


def another_file(folder: Path) -> int:
    """Exports of one model have one archive id, and other lines."""
    original, canonical = FIXTURES / "exported" / "shop_strict.pt2", folder / "canonical.pt2"
    archive.canonicalise(original, canonical)
    archive.split(original, folder / "small.pt2", folder / "small.ptdbg")
    archive.split(canonical, folder / "other.pt2", folder / "other.ptdbg")
    return run(
        "join", folder / "small.pt2", "-c", folder / "other.ptdbg", "-o", folder / "back.pt2"
    ).returncode


def impossible(folder: Path) -> int:
    models = folder / "models"
    models.mkdir()
    for file in (MODEL, KINDS / "flatbuffer.ptl"):
        shutil.copy(file, models)
    single = run("split", KINDS / "flatbuffer.ptl", "-o", folder / "one", "-c", folder / "two")
    assert single.returncode == Cause.UNDONE.status
    return run("split", models, "-o", folder / "out", "-c", folder / "companions").returncode


def not_clean(folder: Path) -> int:
    checkpoint = FIXTURES / "canaries" / "checkpoint.pt"
    return run("redact", checkpoint, "-o", folder / "public.pt", "--replace", "cpu=gpu").returncode


def other_digest(folder: Path) -> int:
    listed = folder / "digests.txt"
    listed.write_text(well("digest", "--of", "file", MODEL).replace(str(MODEL), str(OTHER)))
    return run("digest", "--check", listed).returncode


def bad_store(folder: Path) -> int:
    store = folder / "store"
    well("store", "add", MODEL, "--store", store)
    (store / "companions" / "foreign.txt").write_text("x")
    return run("store", "ls", "--store", store).returncode


def no_companion(folder: Path) -> int:
    well("store", "add", MODEL, "--store", folder / "store")
    return run("store", "ls", "nothing*", "--store", folder / "store").returncode


def false_claim(folder: Path) -> int:
    for file in main_job.HERE.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    (folder / "source.txt").write_bytes(b"another text")
    with mock.patch.object(main_job, "HERE", folder):
        return run("demo").returncode


def bad_budget(folder: Path) -> int:
    shutil.copy(MODEL, folder)
    budgets = folder / "budgets.toml"
    budgets.write_text('[tool.debug-archive.budgets]\n"nothing/*.ptl" = "1MB"\n')
    return run("sizes", folder, "--config", budgets).returncode


def raised(error: BaseException) -> Callable[[Path], int]:
    def ended(_: Path) -> int:
        with mock.patch("archive.cli.inspect.inspect", side_effect=error):
            return run("inspect", MODEL).returncode

    return ended


def lost_output(_: Path) -> int:
    with mock.patch("archive.cli.printing.write_all", side_effect=OSError(28, "No space left on device")):
        return run("digest", MODEL).returncode


def command(*words: object, stdin: bytes = b"") -> Callable[[Path], int]:
    return lambda _: run(*words, stdin=stdin).returncode


EXAMPLES: dict[Cause, Callable[[Path], int]] = {
    Cause.UNKNOWN: command("symbolicate", MODEL, 9),
    Cause.UNEXPLAINED: command("symbolicate", MODEL, stdin=UNKNOWN),
    Cause.UNREAD_MODEL: lambda folder: run("symbolicate", cut(folder), stdin=b"a line\n").returncode,
    Cause.NO_DEBUG_INFO: no_debug_info,
    Cause.INCONSISTENT: lambda folder: run("verify", cut(folder)).returncode,
    Cause.REVEALING: command("leaks", FIXTURES / "exported" / "shop.pt2"),
    Cause.NOT_CLEAN: not_clean,
    Cause.ANOTHER_FILE: another_file,
    Cause.IMPOSSIBLE: impossible,
    Cause.OVER_BUDGET: command("sizes", MODEL, "--budget", "1KB"),
    Cause.DIFFERS: command("diff", MODEL, OTHER),
    Cause.PARTS: parts,
    Cause.OTHER_DIGEST: other_digest,
    Cause.BAD_STORE: bad_store,
    Cause.NO_COMPANION: no_companion,
    Cause.FALSE_CLAIM: false_claim,
    Cause.UNDONE: lambda folder: run("digest", cut(folder)).returncode,
    Cause.USAGE: command("inspect", MODEL, "--nope"),
    Cause.BAD_BUDGET: bad_budget,
    Cause.LOST_OUTPUT: lost_output,
    Cause.FAULT: raised(KeyError("a fault")),
    Cause.INTERRUPTED: raised(KeyboardInterrupt()),
    Cause.CLOSED_PIPE: raised(BrokenPipeError()),
}
"""A command that ends by each cause."""


def test_the_page_has_the_rows_of_the_policy() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(str(int(one.status)), one.commands, one.words) for one in Cause]


def test_the_help_of_each_command_has_its_rows() -> None:
    for name in {name for one in Cause if one.commands != "all" for name in one.commands.split(", ")}:
        words = [word for word in name.strip("`").split() if not word.startswith("-")]
        said = " ".join(well(*words, "--help").split())
        for one in Cause:
            assert (f"Exit status {one.status}: {one.words}." in said) == (name in one.commands), (name, one)


@pytest.mark.parametrize("cause", Cause, ids=lambda cause: cause.name)
def test_a_command_ends_as_the_policy_says(
    cause: Cause, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert EXAMPLES[cause](tmp_path) == cause.status


@pytest.mark.parametrize("name", ["inspect", "sizes", "digest", "leaks", "symbolicate", "verify"])
def test_what_verify_reports_is_a_failure_of_other_commands(name: str, tmp_path: Path) -> None:
    more = [9] if name == "symbolicate" else []
    expected = (Cause.INCONSISTENT if name == "verify" else Cause.UNDONE).status
    assert run(name, cut(tmp_path) / "cut.ptl", *more).returncode == expected
    assert run(name, MODEL, *more, "--limit", "memory=1K").returncode == expected
    assert run(name, tmp_path / "gone.ptl", *more).returncode == Cause.UNDONE.status


def test_no_other_module_decides() -> None:
    deciding = re.compile(r"ExitStatus\.(?!WELL)[A-Z]|(?:sys\.exit|return)\(? ?[12]\)?$", re.MULTILINE)
    modules = [path for path in (ROOT / "archive" / "cli").rglob("*.py") if path.name != "status.py"]
    assert [path.name for path in modules if deciding.search(path.read_text())] == []
    assert {one.status for one in Cause} == set(ExitStatus) - {ExitStatus.WELL}
