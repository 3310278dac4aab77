"""What is published: addresses, the page for an index, words of others, workflows as pages show them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import archive

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
REPOSITORY = PROJECT["project"]["urls"]["Repository"]
SUBSTITUTIONS = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]


def for_an_index(text: str) -> str:
    """A page of the repository as it is published."""
    for rule in SUBSTITUTIONS:
        text = re.sub(rule["pattern"], rule["replacement"].replace("$HFPR_VERSION", "1.2.3"), text)
    return text


def test_every_address_is_of_one_repository() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8") + (ROOT / "CITATION.cff").read_text("utf-8")
    addresses = re.findall(r"https?://[^\s\"')]+", text)
    assert len(addresses) == 6
    assert [one for one in addresses if one != REPOSITORY and not one.startswith(f"{REPOSITORY}/")] == []


def test_the_readme_of_an_index_has_no_relative_links() -> None:
    text = for_an_index((ROOT / "README.md").read_text("utf-8"))
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20
    assert [link for link in links if not link.startswith(f"{REPOSITORY}/")] == []


def test_links_and_images_become_addresses_of_the_release() -> None:
    text = "[a](docs/x.md) ![b c](docs/x.png) [d](https://other.example/x) [e](#here) [![f](g.svg)](h.md)"
    assert for_an_index(text) == (
        f"[a]({REPOSITORY}/blob/v1.2.3/docs/x.md) ![b c]({REPOSITORY}/raw/v1.2.3/docs/x.png) "
        f"[d](https://other.example/x) [e](#here) "
        f"[![f]({REPOSITORY}/raw/v1.2.3/g.svg)]({REPOSITORY}/blob/v1.2.3/h.md)"
    )


def test_the_notice_names_files_and_licences_that_are_there() -> None:
    text = (ROOT / "NOTICE").read_text("utf-8")
    files = set(re.findall(r"\b(?:archive/[\w/]+\.\w+|LICENSES/[\w.-]+\w)", text))
    dictionaries = {f"archive/companion/{name}" for name in ("texts.zdict", "sources.zst")}
    assert {"archive/failures/families.txt", *dictionaries} < files
    assert {f"LICENSES/{path.name}" for path in ROOT.glob("LICENSES/*")} < files
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_changelog_has_what_is_not_released_yet_or_this_version() -> None:
    heads = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heads[0] in {"Unreleased", archive.__version__}


def test_the_citation_is_of_this_project() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["title"], citation["license"]) == ("debug-archive", PROJECT["project"]["license"])


def test_hooks_for_pre_commit_call_commands_that_there_are() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text("utf-8")
    assert [hook["id"] for hook in hooks] == re.findall(r"- id: (debug-archive-\w+)", page)
    for hook in hooks:
        words = hook["entry"].split()
        assert words[0] in PROJECT["project"]["scripts"]
        done = subprocess.run(
            [sys.executable, "-m", "archive", *words[1:], "--help"],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0


def test_a_source_distribution_says_that_its_tests_need_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    conftest = (ROOT / "tests" / "conftest.py").read_text("utf-8")
    (tmp_path / "elsewhere" / "conftest.py").write_text(conftest)
    (tmp_path / "elsewhere" / "test_x.py").write_text("def test_x(): pass\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            tmp_path,
            tmp_path / "elsewhere",
        ],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 4
    assert (
        "no fixtures/ here, which a source distribution leaves out: tests need a checkout"
        in done.stderr + done.stdout
    )


@pytest.mark.parametrize("name", ["CODE_OF_CONDUCT.md", "LICENSE", "NOTICE", "CITATION.cff"])
def test_what_a_repository_has_is_there(name: str) -> None:
    assert (ROOT / name).stat().st_size > 300
