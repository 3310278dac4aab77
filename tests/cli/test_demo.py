"""``debug-archive demo``: its files and texts are as it claims, and a claim that does not hold ends it."""

from __future__ import annotations

import json
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

pytest.importorskip("torch", exc_type=ImportError)

import archive
from archive.backend import LoweringError, example
from archive.base.errors import ArchiveError
from archive.cli.demo import claims, command, stock, stock_program
from tests.support.commands import called, files, told
from tests.support.documents import file_of
from tests.support.processes import run_fresh

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
FILES = ["device.ptl", "host.pt", "host.ptl", "model.ptdbg", "trace.json"]
SUM = "return torch.relu(found + smaller)"
CALL = "found = self.layer2(self.layer1(found))"
SCORE = "return self.head(self.features(image))"
MESSAGE = "The size of tensor a (9) must match the size of tensor b (8) at non-singleton dimension 3"
INNER = "layer2(ResidualBlock)::forward.aten::add"
OUTER = f"top(Classifier)::<unknown>.features(Features)::forward.__loweredModule__(Features)::forward.{INNER}"


class Shown:
    """A demo without steps."""

    FAILURES = ()
    FILES = ()

    @staticmethod
    def steps(*_: object, **__: object) -> tuple[()]:
        return ()


def test_the_folder_is_told_as_it_can_be_found_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "_backend_steps", Shown)
    done = CliRunner().invoke(command.command, ["--backend", "-o", "."])
    assert done.exit_code == 0
    assert done.output.endswith(f"The files are in {tmp_path}.\n")


def run(
    *arguments: object, environment: dict[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from archive.cli import main; main()", "demo", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "new" / "folder"


@pytest.fixture(scope="module")
def facts(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What it tells; stock PyTorch runs in forks of a process that has imported it."""
    calls = tmp_path_factory.mktemp("calls") / "calls"

    def forked(command: list[str], *, input: bytes, **_: object) -> subprocess.CompletedProcess[bytes]:  # noqa: A002
        program, *files = command[command.index(stock_program.__file__) :]
        calls.write_bytes(input)
        opening = f"import sys\nsys.stdin = open({str(calls)!r})\n"
        source = Path(program).read_text("utf-8").replace("from __future__ import annotations\n", "")
        done = run_fresh(opening + source, *files, folder=calls.parent)
        return subprocess.CompletedProcess(command, 0, done.stdout.encode(), b"")

    with mock.patch.object(stock, "subprocess", SimpleNamespace(run=forked)):
        facts: Any = told("demo", "--backend", "-o", folder)
        return {**facts, **facts["steps"]}


def sources(facts: dict[str, Any]) -> list[str]:
    return [line["source"] for line in facts["lines"]]


def test_the_files_are_made_and_their_sizes_told(facts: dict[str, Any], folder: Path) -> None:
    assert files(folder) == FILES
    assert (facts["file"], facts["kept"], facts["problem"]) == (str(folder), True, None)
    assert facts["saved"]["lowered"] == {"features": "aten"}
    for made in facts["saved"]["files"]:
        assert Path(made["path"]).stat().st_size == made["bytes"]
    assert (folder / "device.ptl").stat().st_size == facts["split"]["out_size"]
    assert list(facts["seconds"]) == list(facts["steps"])


def test_stock_pytorch_gives_the_same_result_and_the_model_s_lines(facts: dict[str, Any]) -> None:
    assert not facts["stock"]["importable"]
    assert [(run["file"], run["same"]) for run in facts["stock"]["runs"]] == [
        ("host.ptl", True),
        ("host.pt", True),
    ]
    lite, script = facts["lite"], facts["torchscript"]
    assert lite["text"].startswith(MESSAGE)
    assert lite["module_hierarchy"] == OUTER
    assert sources(lite) == [SCORE, CALL, SUM]
    assert sources(script) == [SCORE, SUM]


def test_the_lines_are_those_of_the_model_s_file(facts: dict[str, Any]) -> None:
    for line in facts["lite"]["lines"]:
        assert line["file"] == facts["saved"]["source"] == example.__file__
        assert linecache.getline(line["file"], line["line"]).strip() == line["source"]


def test_the_delegate_fails_at_the_same_lines(facts: dict[str, Any]) -> None:
    found = facts["delegate"]
    assert (found["part"], found["same"], found["same_lines"]) == ("features", True, True)
    assert found["lines"] == facts["lite"]["lines"][1:]
    assert found["module_hierarchy"].endswith(INNER)
    assert found["text"].startswith(MESSAGE)


def test_its_profile_adds_up_and_the_trace_has_it(facts: dict[str, Any], folder: Path) -> None:
    profile = facts["profile"]
    assert sum(row["self_ns"] for row in profile["by_line"]) == profile["total_ns"] > 0
    assert sum(row["self_ns"] for row in profile["by_module"]) == profile["total_ns"]
    assert {CALL, SUM} - {row["text"] for row in profile["by_line"]} == {CALL}
    assert any(row["name"].endswith("layer2.first") for row in profile["by_module"])
    events = json.loads((folder / "trace.json").read_bytes())["traceEvents"]
    assert len(events) == profile["trace_events"]


def test_the_device_names_handles_and_the_companion_explains_them(
    facts: dict[str, Any], folder: Path
) -> None:
    assert facts["device"]["same"]
    assert facts["device"]["lines"] == []
    assert facts["explained"]["text"] == facts["lite"]["text"]
    with archive.open(folder / "model.ptdbg") as companion:
        found = companion.symbolicate(facts["device"]["handles"])
    assert found.module_hierarchy == OUTER
    again = called("symbolicate", folder / "model.ptdbg", stdin=facts["device"]["text"].encode())
    assert again.stdout == facts["lite"]["text"]


def test_nothing_is_replaced_unasked(facts: dict[str, Any], folder: Path) -> None:
    assert facts
    before = [(folder / name).read_bytes() for name in FILES]
    done = called("demo", "--backend", "-o", folder)
    assert isinstance(done.exception, ArchiveError)
    assert "host.ptl: the file exists; pass --force" in str(done.exception)
    assert [(folder / name).read_bytes() for name in FILES] == before


def test_it_prints_each_step_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("--backend", environment={"TMPDIR": str(tmp_path)}, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    titles = re.findall(r"^(\d+)\. .+\n─+$", done.stdout, re.MULTILINE)
    assert titles == [str(number) for number in range(1, 10)]
    for text in (MESSAGE, OUTER, f"{SUM}\n", "debug_handles:{", "to the byte", "All of it compared and true"):
        assert text in done.stdout
    assert re.search(r"^device\.ptl +[\d,]+ +92\.\d% +model and debug handles$", done.stdout, re.MULTILINE)
    assert "FittedTable" not in done.stdout
    long = [line.split()[0] for line in done.stdout.splitlines() if len(line) > 100]
    assert {*long} <= {"Module", "File", "RuntimeError:"}, "these are PyTorch's"
    assert files(tmp_path) == []


def says(facts: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run another program than the one that runs stock PyTorch."""
    program = folder / "stock.py"
    program.write_text(f"print({facts!r})" if facts else "import sys; sys.exit('first\\nno torch')")
    monkeypatch.setattr(stock_program, "__file__", str(program))


def test_what_does_not_hold_ends_it_once_files_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(
        '{"importable": false, "runs": [{"difference": 0.5, "error": "e"}, {"difference": 0, "error": "e"}]}',
        tmp_path,
        monkeypatch,
    )
    (tmp_path / "host.ptl").touch()
    done = called("demo", "--backend", "-o", tmp_path, "--json", "--force")
    assert (tmp_path / "host.ptl").stat().st_size > 0
    problem = (
        "this does not hold: the result of host.ptl in stock PyTorch is that of eager mode "
        "(largest difference: 0.5)"
    )
    assert (done.exit_code, done.stderr) == (1, f"debug-archive: {problem}\n")
    facts = file_of(done.stdout)
    assert (facts["problem"], [*facts["seconds"]]) == (problem, ["saved"])


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ("", "stock PyTorch runs a.pt (it says: no torch)"),
        ('{"importable": true}', "a stock process cannot import this library"),
        ('{"importable": false, "runs": [{"difference": null, "error": "e"}]}', "largest difference: None"),
        ('{"importable": false, "runs": [{"difference": NaN, "error": "e"}]}', "largest difference: nan"),
        ('{"importable": false, "runs": [{"difference": 0, "error": ""}]}', "a.pt fails with a bad image"),
    ],
)
def test_what_stock_pytorch_says_is_checked(
    facts: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(facts, tmp_path, monkeypatch)
    with pytest.raises(claims.ClaimError, match=re.escape(problem)):
        stock.run_stock(tmp_path, ["a.pt"], b"")


def test_what_cannot_be_lowered_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: str) -> None:
        raise LoweringError("no such\nbackend")

    monkeypatch.setattr(example, "lowered_example", refused)
    done = called("demo", "--backend", "-o", tmp_path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "debug-archive: no such\\nbackend\n"


def test_lines_are_read_from_a_traceback_of_original_code() -> None:
    text = (
        'serialized code\n  File "code/a.py", line 1, in f\n    x\n    ~ <--- HERE\n\n'
        'Traceback of TorchScript, original code (most recent call last):\n  File "a.py", line 3, in f\n'
        '    def f(x):\n        return g(x)\n               ~~~~ <--- HERE\n  File "<string>", line 1, in g\n'
        '    y\n    ~ <--- HERE\n  File "b c.py", line 9, in h\n\n    z\n    ~ <--- HERE\n    w\n'
    )
    assert stock.shown_lines(text) == [("a.py", 3, "return g(x)"), ("b c.py", 9, "z")]


def test_without_pytorch_it_says_where_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    done = run("--backend", environment={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])})
    assert (done.returncode, done.stdout) == (2, "")
    assert "--backend needs PyTorch" in done.stderr
    assert "pip install '.[torch]'" in done.stderr


def test_help_has_examples() -> None:
    done = called("demo", "--help")
    assert done.exit_code == 0
    assert "debug-archive demo --backend\n" in done.stdout.partition("Examples:\n")[2]


def test_the_page_s_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "how-to" / "lowering.md").read_text(encoding="utf-8")
    code, again = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 (as a reader runs it)
    assert files(tmp_path) == ["model.ptl", "run.folded", "run.speedscope.json", "trace.json"]
    said = capsys.readouterr().out
    assert INNER in said
    assert "operations in" in said
    before = (tmp_path / "model.ptl").read_bytes()
    names["save_lowered"](names["torch"].jit.script(names["model"]), "model.pt")
    (tmp_path / "model.ptl").unlink()
    exec(again, {})  # noqa: S102 (the same)
    with archive.open(before) as first, archive.open(tmp_path / "model.ptl") as second:
        assert list(first.handles) == list(second.handles)
        assert [bytes(first.symbolicate(one)) for one in first.handles] == [
            bytes(second.symbolicate(one)) for one in second.handles
        ]
