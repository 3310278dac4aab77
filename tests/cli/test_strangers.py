"""Another distribution's package ``archive`` in the place of ours: one line, and what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import debug_archive

ROOT = Path(__file__).parents[2]
OURS = (ROOT / "archive" / "__init__.py").read_text("utf-8")
THEIRS = "from archive.compat import IS_PY2\n\ndef extract(path): ...\n"
PROGRAM = "import sys; sys.argv = ['debug-archive', '--version']; from debug_archive import main; main()"


def started(folder: Path) -> subprocess.CompletedProcess[str]:
    """The command's start, with a folder before all others on the path."""
    program = f"import sys; sys.path.insert(0, {str(folder)!r}); {PROGRAM}"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )


def installed(folder: Path, name: str, **files: str) -> None:
    """A distribution with files of a package ``archive``, as pip leaves them."""
    (folder / "archive").mkdir(exist_ok=True)
    for module, text in files.items():
        (folder / "archive" / f"{module}.py").write_text(text)
    about = folder / f"{name.replace('-', '_')}-0.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2\n")
    (about / "top_level.txt").write_text("archive\n")


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that the command ends with."""
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith(": install debug-archive anew, in an environment of its own")
    return line


def test_ours_is_ours() -> None:
    assert debug_archive.stranger() == ""


def test_another_one_that_was_installed_later_is_named_with_its_distribution(tmp_path: Path) -> None:
    installed(tmp_path, "python-archive", __init__=THEIRS, compat="IS_PY2 = False")
    line = refusal(started(tmp_path))
    place = tmp_path / "archive" / "__init__.py"
    assert f"{place} is not this project's package archive, but that of python-archive:" in line


def test_the_same_where_it_cannot_be_imported(tmp_path: Path) -> None:
    installed(tmp_path, "python-archive", __init__=THEIRS)
    line = refusal(started(tmp_path))
    assert "cannot be imported (ModuleNotFoundError: No module named 'archive.compat')" in line
    assert ", but that of python-archive:" in line


def test_what_is_left_when_the_other_one_is_taken_away_is_not_enough(tmp_path: Path) -> None:
    (tmp_path / "archive" / "cli").mkdir(parents=True)
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(tmp_path / 'own')!r}]; {PROGRAM}"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "debug_archive.py").write_text((ROOT / "debug_archive.py").read_text("utf-8"))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, encoding="utf-8", check=False
    )
    line = refusal(done)
    assert line.startswith(f"debug-archive: {tmp_path / 'archive'} is not this project's package archive: ")


@pytest.mark.parametrize("program", ["import debug_archive", "from debug_archive import main"])
def test_the_module_imports_nothing_of_its_own(program: str) -> None:
    said = f"import sys; before = {{*sys.modules}}; {program}; print(sorted({{*sys.modules}} - before))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", said], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "['__future__', 'debug_archive']\n"
