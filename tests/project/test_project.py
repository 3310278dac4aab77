"""What must hold for the project's own files: fixtures as listed, nothing of a developer's machine inside."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import lzma
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import archive
from tests.support.sampling import whole_suite
from tools import make_fixtures, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
MADE_UP = (
    rb"(?:home|Users)/(?:ann|annab(?:el)?|zo\xc3\xab|bob|[Aa]nn [Ll]ee|u%03d|zq[a-z]+xz)/|home/ann(?![\w./-])"
    rb"|home/a\\n|home/a/\{\}|root/(?:m\.py|net/)|tmp/ab12/"
)
"""What the tests of ``leaks`` and ``redact`` find."""
MACHINE_PATH = re.compile(
    rb"(?<![\w.}-])/(?!" + MADE_UP + rb")(?:work|farm|root|home|Users|tmp/[\w.-]+)/[\w./-]+"
)


def listed() -> list[list[str]]:
    lines = (FIXTURES / "MANIFEST.tsv").read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines[1:]]


def tracked() -> list[Path]:
    """Every file that is, or would be, under version control."""
    try:
        found = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no git work tree: {error}")
    paths = (ROOT / name for name in found.stdout.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]


def contents(file: Path) -> Iterator[tuple[str, bytes]]:
    """A file's bytes, uncompressed, and those of every member, inflated, if it is an archive."""
    raw = file.read_bytes()
    if file.name.endswith(".pt2.xz"):
        raw = lzma.decompress(raw)
    yield str(file.relative_to(ROOT)), raw
    if zipfile.is_zipfile(io.BytesIO(raw)):
        with zipfile.ZipFile(io.BytesIO(raw)) as members:
            for name in members.namelist():
                yield f"{file.relative_to(ROOT)}!{name}", members.read(name)


def test_every_fixture_has_its_digest() -> None:
    wrong = [
        path
        for path, size, sha256, *_ in listed()
        if hashlib.sha256((FIXTURES / path).read_bytes()).hexdigest() != sha256
        or (FIXTURES / path).stat().st_size != int(size)
    ]
    assert wrong == []


def test_no_fixture_is_unlisted_and_the_manifest_is_up_to_date() -> None:
    assert manifest.differences(FIXTURES) == []


def test_the_manifest_tool_names_each_kind_of_difference(tmp_path: Path) -> None:
    for path in ("releases/MANIFEST.tsv", "oracles/manifest.json", "oracles/plain_stack.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes((FIXTURES / path).read_bytes())
    table = manifest.to_table(manifest.rows(tmp_path))
    (tmp_path / "MANIFEST.tsv").write_text(table, "utf-8")
    assert manifest.differences(tmp_path) == []

    with (tmp_path / "oracles/plain_stack.txt").open("a") as file:
        file.write("more")
    (tmp_path / "oracles/plain_unicode.txt").write_text("new")
    (tmp_path / "oracles/manifest.json").write_bytes((FIXTURES / "oracles/manifest.json").read_bytes())
    (tmp_path / "MANIFEST.tsv").write_text(table + "oracles/gone.txt\t0\t\t\t\n", "utf-8")
    said = manifest.differences(tmp_path)
    assert [line.split(":")[0] for line in said] == [
        "oracles/gone.txt",
        "oracles/plain_stack.txt",
        "oracles/plain_unicode.txt",
    ]
    assert said[0].endswith("listed, but missing")
    assert said[2].endswith("not listed")

    (tmp_path / "stray.pt").write_bytes(b"")
    with pytest.raises(manifest.UndescribedError, match=r"stray\.pt"):
        manifest.rows(tmp_path)


@pytest.mark.torch
@whole_suite
def test_the_fixtures_of_the_current_release_come_out_the_same(tmp_path: Path) -> None:
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        pytest.skip("no PyTorch")
    libraries = Path(torch.origin).parent / "lib"
    if not all((libraries / name).exists() for name in make_fixtures.DEMO_LIBRARIES):
        pytest.skip("this build of PyTorch does not bring the demo backends")
    command = [sys.executable, "tools/make_fixtures.py", "--check", str(tmp_path)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "torch-2.13.0: 21 of 21 archives are byte-identical" in made.stdout
    assert "made.json: 21 of 21 answers are the same" in made.stdout
    assert "oracles: 37 of 37 archives are byte-identical" in made.stdout


def test_comparing_tells_which_records_differ(tmp_path: Path) -> None:
    frozen = FIXTURES / "oracles" / "plain_stack.pt"
    made = tmp_path / "plain_stack.pt"
    made.write_bytes(frozen.read_bytes())
    assert make_fixtures.compared(made, frozen) is None

    with zipfile.ZipFile(made, "w") as written:
        for name, content in make_fixtures.records(frozen).items():
            written.writestr(name, content)
    assert make_fixtures.compared(made, frozen) == "the same records, but another order or other zip headers"

    with zipfile.ZipFile(made, "w") as written:
        for name, content in make_fixtures.records(frozen).items():
            if name != "plain_stack/byteorder":
                written.writestr(name, b"4" if name == "plain_stack/version" else content)
        written.writestr("plain_stack/extra/x", b"")
    said = make_fixtures.compared(made, frozen)
    assert said is not None
    assert said.split("; ") == [
        "only frozen: plain_stack/byteorder",
        "only made: plain_stack/extra/x",
        "other content: plain_stack/version",
    ]


def test_no_file_holds_a_path_of_a_developers_machine() -> None:
    found = [
        f"{name}: {match[0].decode(errors='replace')}"
        for file in tracked()
        for name, content in contents(file)
        for match in MACHINE_PATH.finditer(content)
    ]
    assert found == []


@pytest.mark.parametrize("folder", [b"work", b"root", b"home", b"Users", b"tmp/pytest-1"])
@pytest.mark.parametrize("before", [b"", b"file:/", b"X\x0b\x00\x00\x00", b"'"])
def test_machine_paths_are_recognised(before: bytes, folder: bytes) -> None:
    assert MACHINE_PATH.search(before + b"/" + folder + b"/x.pt")


@pytest.mark.parametrize("path", [b"/src/models.py", b"/opt/torch/torch/x.py", b"a/home/b", b"/tmp"])
def test_neutral_paths_are_not(path: bytes) -> None:
    assert not MACHINE_PATH.search(path)


def test_modules_that_pages_and_tools_name_are_there() -> None:
    modules = {f"/{path.relative_to(ROOT)}" for path in tracked() if path.suffix == ".py"}
    pages = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")]
    named = [(path, r"`((?:\w+/)+\w+\.py)`") for path in (*pages, *(ROOT / "docs" / "decisions").iterdir())]
    named += [(path, r'"(tests/[\w/]+\.py)"') for path in (ROOT / "tools").glob("*.py")]
    names = {(path.name, name) for path, form in named for name in re.findall(form, path.read_text("utf-8"))}
    assert len(names) > len(pages)
    assert [one for one in names if not any(module.endswith(f"/{one[1]}") for module in modules)] == []


def test_constraints_are_pins_without_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
    assert not any(word in line for line in lines for word in ("://", "index", "find-links"))


def test_constraints_pin_every_direct_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(name for extra in project["project"]["optional-dependencies"].values() for name in extra),
    ]
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {re.split(r"[<>=!~ \[]", name)[0].lower() for name in wanted} <= pinned


def test_the_core_needs_eight_packages_and_no_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[<>=!~ \[]", name)[0] for name in project["dependencies"]}
    assert names == {"click", "construct", "cramjam", "deflate", "numpy", "regex", "rich", "zstandard"}


def test_the_installed_version_is_the_projects() -> None:
    try:
        installed = importlib.metadata.version("debug-archive")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("debug-archive is not installed")
    assert installed == archive.__version__


def test_licence_and_type_marker_are_there() -> None:
    assert (ROOT / "LICENSE").read_text("utf-8").startswith("BSD 3-Clause License")
    assert (ROOT / "archive" / "py.typed").is_file()
