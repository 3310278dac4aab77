"""Tests find the same environment whoever runs them, and CI gives them no more than that."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools.pages import ROOT

HOSTILE = {
    "COLUMNS": "40",
    "DEBUG_ARCHIVE_STORE": "nowhere",
    "FORCE_COLOR": "1",
    "GITHUB_ACTIONS": "true",
    "LANG": "C",
    "LC_ALL": "C",
    "NO_COLOR": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "7",
    "PYTHONUNBUFFERED": "1",
    "SOURCE_DATE_EPOCH": "1",
    "TERM": "xterm-256color",
    "TZ": "Pacific/Kiritimati",
}


def test_variables_of_whoever_runs_the_tests_are_gone() -> None:
    program = (
        "import os; from tests.support.processes import pin; pin();"
        "import subprocess, sys;"
        "print(subprocess.run([sys.executable, '-c', 'import os; print(sorted(os.environ))'],"
        " capture_output=True, check=True, text=True).stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **HOSTILE},
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    assert not [name for name in HOSTILE if f"'{name}'" in done.stdout]
    assert "'PATH'" in done.stdout


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="a source distribution has no .ci")
def test_ci_runs_the_checks_with_a_path_and_a_home_alone() -> None:
    *_, last = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert last == 'env -i PATH="$PATH" HOME="$HOME" make --no-print-directory test'
