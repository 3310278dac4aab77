"""Budgets in ``pyproject.toml``: which files have which, what is told of them, and where."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.commands import called, run, well
from tests.support.corpus import RELEASES
from tests.support.documents import files_of

if TYPE_CHECKING:
    from pathlib import Path

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
NESTED_1_9 = RELEASES / "torch-1.9.0" / "nested.ptl"
TRACED = RELEASES / "torch-2.13.0" / "traced.ptl"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two models, which is the current one."""
    (tmp_path / "models" / "large").mkdir(parents=True)
    shutil.copy(NESTED, tmp_path / "models" / "a.ptl")
    shutil.copy(TRACED, tmp_path / "models" / "large" / "b.ptl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def budgets(folder: Path, *lines: str) -> None:
    (folder / "pyproject.toml").write_text("\n".join(["[tool.debug-archive.budgets]", *lines]))


def verdicts(*arguments: object) -> dict[str, list[dict[str, Any]]]:
    """The verdicts of each file, as JSON has them."""
    facts = files_of(called("sizes", *arguments, "--json").stdout)
    return {one["file"]: one["budgets"] for one in facts}


def test_each_file_has_the_budgets_of_all_globs_that_fit(project: Path) -> None:
    budgets(project, '"models/*.ptl" = ["5MB", "debug=100KB"]', '"models/large/**" = "source ranges=2KB"')
    budgets_of = {
        file: [(one["glob"], one["label"], one["most"], one["measured"], one["over"]) for one in found]
        for file, found in verdicts("models").items()
    }
    assert budgets_of == {
        "models/a.ptl": [
            ("models/*.ptl", "", 5_000_000, 9_881, 0),
            ("models/*.ptl", "debug", 100_000, 3_017, 0),
        ],
        "models/large/b.ptl": [("models/large/**", "source ranges", 2_000, 2_728, 728)],
    }


def test_what_is_over_its_budget_is_a_line_and_status_1(project: Path) -> None:
    budgets(project, '"models/**" = ["12KB", "debug=4KB"]')
    done = called("sizes", "models")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "debug-archive: models/large/b.ptl: 15,431 bytes, 3,431 over the budget of 12,000 (models/**)",
        "debug-archive: models/large/b.ptl: debug: 4,352 bytes, 352 over the budget of 4,000 (models/**)",
    ]
    assert done.stdout.splitlines()[-1] == "budgets: 2 kept, 2 exceeded"


def test_budgets_that_are_kept_are_counted(project: Path) -> None:
    budgets(project, '"**/*.ptl" = "1MB"')
    done = called("sizes", "models")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "budgets: 2 kept, 0 exceeded"


def test_a_single_file_is_checked_from_whatever_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets(project, '"models/*.ptl" = "9KB"', '"other/*.ptl" = "1B"')
    monkeypatch.chdir(project / "models" / "large")
    done = called("sizes", "../a.ptl")
    assert done.exit_code == 1
    assert (
        done.stderr == "debug-archive: ../a.ptl: 9,881 bytes, 881 over the budget of 9,000 (models/*.ptl)\n"
    )
    assert called("sizes", "b.ptl").exit_code == 0


def test_labels_are_kinds_whatever_the_view(project: Path) -> None:
    budgets(project, '"models/*.ptl" = "source ranges=1KB"')
    for view in ("kind", "part", "record", "module", "source"):
        (found,) = verdicts("models", "--by", view)["models/a.ptl"]
        assert (found["measured"], found["over"]) == (1_190, 190)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_file_that_is_named_is_held_to_the_budgets(project: Path, count: int) -> None:
    shutil.copy(NESTED_1_9, project / "models" / "c.ptl")
    names = ["models/a.ptl", "models/large/b.ptl", "models/c.ptl"][:count]
    sizes = {name: (project / name).stat().st_size for name in names}
    for too_small in (0, 1):
        budget = f"{max(sizes.values()) - too_small}B"
        assert called("sizes", *names, "--budget", budget).exit_code == too_small
        for name, size in sizes.items():
            budgets(project, f'"{name}" = "{size - too_small}B"')
            assert called("sizes", *names).exit_code == too_small, name
        (project / "pyproject.toml").unlink()


# --- where budgets stand


def test_the_nearest_pyproject_that_has_budgets_is_taken(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets(project, '"models/**" = "1B"')
    (project / "models" / "pyproject.toml").write_text("[tool.other]\nbudgets = 1\n")
    monkeypatch.chdir(project / "models")
    assert called("sizes", "a.ptl").exit_code == 1
    budgets(project / "models", '"*.ptl" = "1MB"')
    assert called("sizes", "a.ptl").exit_code == 0


def test_another_file_may_have_the_budgets(project: Path) -> None:
    budgets(project, '"models/**" = "1MB"')
    (project / "strict.toml").write_text('[tool.debug-archive.budgets]\n"models/*.ptl" = "1B"\n')
    assert called("sizes", "models", "--config", "strict.toml").exit_code == 1
    assert called("sizes", "models").exit_code == 0


def test_a_file_that_should_have_budgets_and_has_none_is_refused(project: Path) -> None:
    (project / "none.toml").write_text("[tool.ruff]\n")
    done = run("sizes", "models", "--config", "none.toml")
    assert done.returncode == 2
    assert done.stderr == b"debug-archive: none.toml: has no table [tool.debug-archive.budgets]\n"


@pytest.mark.usefixtures("project")
def test_without_budgets_nothing_is_said_of_them() -> None:
    assert "budgets" not in called("sizes", "models").stdout
    assert verdicts("models") == {"models/a.ptl": [], "models/large/b.ptl": []}
    assert verdicts("models/a.ptl") == {"models/a.ptl": []}


# --- growth


def test_growth_is_measured_from_the_file_of_the_same_path(project: Path) -> None:
    budgets(project, '"models/*.ptl" = "+1KB"', '"models/large/**" = "debug=+0"')
    (project / "base" / "large").mkdir(parents=True)
    shutil.copy(NESTED_1_9, project / "base" / "a.ptl")
    shutil.copy(TRACED, project / "base" / "large" / "b.ptl")
    done = called("sizes", "models", "--base", "base")
    assert done.exit_code == 1
    assert done.stderr == (
        "debug-archive: models/a.ptl: grew by 1,088 bytes, 88 over the budget of 1,000 (models/*.ptl)\n"
    )
    assert done.stdout.splitlines()[2].split() == ["models/a.ptl", "8,793", "9,881", "+1,088", "+12.4%"]
    assert done.stdout.splitlines()[-1] == "budgets: 1 kept, 1 exceeded"


def test_a_base_in_the_folder_itself_is_not_measured(project: Path) -> None:
    shutil.copytree(project / "models", project / "base" / "models")
    done = called("sizes", ".", "--base", "base")
    assert [line.split()[0] for line in done.stdout.splitlines()[2:5]] == [
        "models/a.ptl",
        "models/large/b.ptl",
        "total",
    ]


def test_growth_that_cannot_be_measured_is_told_and_not_called_kept(project: Path) -> None:
    budgets(project, '"models/**" = "+1KB"')
    done = called("sizes", "models")
    assert done.exit_code == 0
    assert (
        done.stderr == "debug-archive: 2 budgets of growth not checked: --base names what to compare with\n"
    )
    assert done.stdout.splitlines()[-1] == "budgets: 0 kept, 0 exceeded, 2 not checked"
    (found,) = verdicts("models")["models/a.ptl"]
    assert (found["measured"], found["over"]) == (None, 0)
    assert "for the difference from a BASE" in found["problem"]

    (project / "base").mkdir()
    shutil.copy(NESTED, project / "base" / "a.ptl")
    done = called("sizes", "models", "--base", "base")
    assert done.stderr == "debug-archive: 1 budget of growth not checked: no such file in BASE\n"
    assert done.stdout.splitlines()[-1] == "budgets: 1 kept, 0 exceeded, 1 not checked"


# --- what is no budget


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '"a" = "5 5"',
            (
                "'a': could not parse the budget '5 5': expected SIZE or LABEL=SIZE, "
                "like 5MB or 'source ranges=+10KiB'"
            ),
        ),
        ('"a" = ["5MB", "MB"]', "'a', item 2: could not parse the budget 'MB': expected SIZE"),
        ('"a" = 5', "'a': expected text like \"debug=100KB\", found 5"),
        ('"a" = [["5MB"]]', "'a', item 1: expected text like \"debug=100KB\", found ['5MB']"),
        ('"../a" = "5MB"', "'../a': expected a glob below the folder of this file"),
        ('"/a" = "5MB"', "'/a': expected a glob below the folder of this file"),
        ('"" = "5MB"', "'': expected a glob below the folder of this file"),
    ],
)
def test_a_budget_that_is_none_is_told_with_its_place(project: Path, line: str, said: str) -> None:
    budgets(project, line)
    done = run("sizes", "models/a.ptl")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert f"pyproject.toml: [tool.debug-archive.budgets], {said}" in done.stderr.decode()


@pytest.mark.parametrize(
    "text",
    [
        "[tool",
        "[tool.debug-archive]\nbudgets = 5",
        "[tool.debug-archive.budget]\n'models/**' = '1B'",
        "tool = 5",
        "a = " + "[" * 100_000,
        "a = '\udcff'",
        "#" * (1 << 24) + "\n",
    ],
    ids=["cut", "number", "another name", "no table", "deep", "no UTF-8", "large"],
)
def test_what_is_no_such_table_is_named(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_bytes(text.encode(errors="surrogateescape"))
    done = run("sizes", "models/a.ptl")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert done.stderr.startswith(b"debug-archive: pyproject.toml: ")


def test_a_label_that_no_file_has_is_told_and_hides_nothing(project: Path) -> None:
    budgets(project, '"models/**" = ["debug=1KB", "rangs=1KB"]')
    done = called("sizes", "models")
    assert done.exit_code == 2
    *over, unknown = done.stderr.splitlines()
    assert len(over) == 2
    assert unknown.startswith(
        "debug-archive: pyproject.toml: [tool.debug-archive.budgets], 'models/**', item 2: "
        "no label 'rangs' by kind; there are: bytecode, source ranges, "
    )
    done = called("sizes", "models", "--budget", "rangs=1KB", "--config", "pyproject.toml")
    assert "debug-archive: --budget: no label 'rangs' by kind" in done.stderr


def test_a_label_that_some_of_the_files_have_is_known(project: Path) -> None:
    well("split", NESTED, "-o", project / "small.ptl", "-c", project / "models" / "a.ptdbg")
    budgets(project, '"models/*" = "string=1MB"')
    done = called("sizes", "models")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "budgets: 1 kept, 0 exceeded"


def test_a_glob_that_fits_no_file_is_told_where_several_are_checked(project: Path) -> None:
    budgets(project, '"modles/*.ptl" = ["1KB", "2KB"]', '"models/large/*" = "1MB"')
    done = called("sizes", "models")
    assert done.exit_code == 2
    assert done.stderr == (
        "debug-archive: pyproject.toml: [tool.debug-archive.budgets], 'modles/*.ptl': fits no file\n"
    )
    assert called("sizes", "models/a.ptl").exit_code == 0


def test_a_glob_may_be_for_files_that_are_not_checked_now(project: Path) -> None:
    budgets(project, '"models/*.ptl" = "1MB"', '"models/large/**" = "1B"')
    (project / "some").mkdir()
    shutil.copy(NESTED, project / "some" / "a.ptl")
    assert called("sizes", "some").exit_code == 0


@pytest.mark.parametrize(
    ("glob", "fits"),
    [
        ("models/*.ptl", "a"),
        ("models/**", "ab"),
        ("**/*.ptl", "ab"),
        ("**/b.ptl", "b"),
        ("models/**/large/**/b.ptl", "b"),
        ("models/*", "a"),
        ("*/*/*", "b"),
        ("models/[!a].ptl", ""),
        ("models/?.ptl", "a"),
        ("./models/a.ptl", "a"),
        ("*.ptl", ""),
    ],
)
def test_globs_are_those_of_shells(project: Path, glob: str, fits: str) -> None:
    budgets(project, f'"{glob}" = "1MB"')
    found = {file for file, budgets in verdicts("models").items() if budgets}
    assert found == {{"a": "models/a.ptl", "b": "models/large/b.ptl"}[one] for one in fits}
