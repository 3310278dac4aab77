"""What stands in builds: Xcode's script under a plain shell, Gradle's tasks, the GitHub action's steps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import archive
from tests.support.corpus import ORACLES, RELEASES

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "builds" / "split_models.sh"
MODELS = {
    "keyboard.ptl": ORACLES / "plain_unicode.ptl",
    "a model.pt": RELEASES / "torch-2.13.0" / "nested.pt",
}
PROGRAMS = str(Path(sys.executable).parent)


def called(*words: str | Path, folder: Path, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    """A program, which finds ``debug-archive`` on its path and knows only these variables."""
    environment = {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    environment |= {name: str(value) for name, value in variables.items()}
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


# --- Xcode


def phase(folder: Path, inputs: list[Path], outputs: list[Path]) -> subprocess.CompletedProcess[str]:
    """The script, called as Xcode calls a phase with lists of files."""
    variables = {"SRCROOT": str(folder), "SCRIPT_INPUT_FILE_COUNT": str(len(inputs))}
    variables |= {"SCRIPT_OUTPUT_FILE_COUNT": str(len(outputs))}
    variables |= {f"SCRIPT_INPUT_FILE_{at}": str(path) for at, path in enumerate(inputs)}
    variables |= {f"SCRIPT_OUTPUT_FILE_{at}": str(path) for at, path in enumerate(outputs)}
    return called("sh", SCRIPT, folder=folder, **variables)


def test_xcode_gets_the_small_files_and_the_build_keeps_the_companions(tmp_path: Path) -> None:
    for name, model in MODELS.items():
        shutil.copy(model, tmp_path / name)
    outputs = [tmp_path / "Derived Data" / name for name in MODELS]
    for _ in range(2):  # a second build replaces what the first one made
        done = phase(tmp_path, [tmp_path / name for name in MODELS], outputs)
        assert (done.returncode, done.stderr) == (0, "")
    for name, small in zip(MODELS, outputs, strict=True):
        companion = tmp_path / "build" / "companions" / f"{Path(name).stem}.ptdbg"
        archive.join(small, companion, tmp_path / "joined")
        assert (tmp_path / "joined").read_bytes() == MODELS[name].read_bytes()
        (tmp_path / "joined").unlink()


def test_a_model_that_cannot_be_split_fails_the_phase(tmp_path: Path) -> None:
    (tmp_path / "m.ptl").write_bytes(b"no model")
    done = phase(tmp_path, [tmp_path / "m.ptl"], [tmp_path / "out" / "m.ptl"])
    assert done.returncode != 0
    assert "m.ptl" in done.stderr
    done = phase(tmp_path, [tmp_path / "m.ptl"], [])
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: 1 input files and 0 output files")


# --- Gradle


@pytest.mark.skipif(shutil.which("gradle") is None, reason="needs Gradle")
def test_gradle_splits_models_once_and_adds_their_companions(tmp_path: Path) -> None:
    (tasks,) = re.findall(
        r"```groovy\n(.*?)```", (ROOT / "docs/how-to/devices.md").read_text("utf-8"), re.DOTALL
    )
    tasks = tasks.replace("https://symbols.example.com", str(tmp_path / "symbols"))
    (tmp_path / "build.gradle").write_text(
        tasks + "task preBuild {}\ntask bundleRelease(dependsOn: preBuild) {}\n"
    )
    (tmp_path / "models").mkdir()
    shutil.copy(MODELS["keyboard.ptl"], tmp_path / "models" / "keyboard.ptl")
    words = ["gradle", "--no-daemon", "--offline", "--console=plain", "bundleRelease"]
    first = called(*words, folder=tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    assert (tmp_path / "src/main/assets/models/keyboard.ptl").exists()
    assert [*(tmp_path / "symbols").iterdir()]
    second = called(*words, folder=tmp_path)
    assert ":splitModels UP-TO-DATE" in second.stdout, second.stdout + second.stderr


# --- GitHub


def steps(inputs: dict[str, str], folder: Path) -> dict[str, int]:
    """The statuses of the action's steps, run as a runner would, but for the installation."""
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    known = {name: str(declared.get("default", "")) for name, declared in action["inputs"].items()} | inputs
    (folder / "debug-archive").symlink_to(Path(sys.prefix))
    statuses = {}
    for step in action["runs"]["steps"][1:]:
        if "inputs.leaks == 'true'" in step.get("if", "") and known["leaks"] != "true":
            continue
        assert (
            "${{" not in step["run"]
        )  # names come from strangers: they are variables, never the script's text
        variables = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: known[match[1]], value)
            for name, value in step["env"].items()
        }
        done = called("bash", "-e", "-c", step["run"], folder=folder, RUNNER_TEMP=folder, **variables)
        statuses[step["name"]] = done.returncode
    return statuses


def test_the_action_checks_and_measures_models(tmp_path: Path) -> None:
    models = tmp_path / "models $(touch here) `touch here`"
    models.mkdir()
    shutil.copy(MODELS["keyboard.ptl"], models)
    assert steps({"models": str(models)}, tmp_path) == {
        "Check the models": 0,
        "Hold them to their budgets": 0,
    }
    assert not (tmp_path / "here").exists()


def test_the_action_fails_where_a_model_is_broken_or_outgrows_its_budget(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.ptl").write_bytes(MODELS["keyboard.ptl"].read_bytes()[:-100])
    shutil.copy(MODELS["a model.pt"], tmp_path / "models" / "n.pt")
    (tmp_path / "pyproject.toml").write_text('[tool.debug-archive.budgets]\n"models/n.pt" = "1KB"\n')
    assert steps({"models": "models", "leaks": "true", "base": "models"}, tmp_path) == {
        "Check the models": 1,
        "Hold them to their budgets": 2,
        "Look for what they reveal": 2,
    }
