"""Build what a release publishes, check it, and say what a person has to do yet: ``make release-check``.

    python -m tools.release             builds and checks; lists what is left
    python -m tools.release --final     status 1, too, if anything is left

It runs in an environment of the extra ``release``, and installs the wheel, as users do, into empty ones.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
LARGEST_WHEEL, LARGEST_SOURCES = 1_900_000, 3_200_000
"""Bytes; of the wheel, those besides the script of the page, which is made of others' packages. Nearly all is
Python. It was to be 1,600,000, as before safetensors, GGUF, ONNX and ETDumps were read. The
sources have all tests, and no fixtures."""
BUNDLE = "archive/page/bundle/"
INTERPRETERS = ("3.11", "3.12", "3.13", "3.14")
PLACEHOLDER = "https://example.invalid/"
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
PAGE = ROOT / "docs" / "how-to" / "ci.md"
SHOWN_ADDRESS = "<address of this repository>"
SHOWN_ACTION = "<owner>/debug-archive@<tag or commit>"
STRANGER = "python-archive"
"""Another distribution with a package ``archive``."""
REFUSAL = f"is not this project's package archive, but that of {STRANGER}: install debug-archive anew"


class FailedCheckError(Exception):
    """Something that is to be published is not as it should be."""


def run(*words: str | Path, folder: Path = ROOT, status: int = 0) -> str:
    """What a program prints, which ends with this status.

    Raises:
        FailedCheckError: it ends with another one.
    """
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))
    }
    done = subprocess.run(  # noqa: S603 (tools of this environment, and what was just built)
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != status:
        raise FailedCheckError(
            f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout + done.stderr


def check(holds: object, claim: str) -> None:
    """Check a claim.

    Raises:
        FailedCheckError: it does not hold.
    """
    if not holds:
        raise FailedCheckError(f"this does not hold: {claim}")


def tool(name: str) -> Path:
    """A program of the environment that this runs in."""
    return Path(sys.executable).parent / name


def built() -> tuple[Path, Path]:
    """The wheel and the source distribution, built anew: the wheel of the sources."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST)
    (wheel,), (sources,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sources


def files_hold(wheel: Path, sources: Path) -> Iterator[str]:
    """Sizes, contents and metadata of both files."""
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        bundle = sum(info.compress_size for info in opened.infolist() if info.filename.startswith(BUNDLE))
        (metadata,) = (opened.read(name).decode() for name in names if name.endswith("/METADATA"))
    size = wheel.stat().st_size - bundle
    check(size <= LARGEST_WHEEL, f"the wheel has {size:,} of at most {LARGEST_WHEEL:,} bytes")
    tops = {name.partition("/")[0] for name in names}
    own = {"archive", "debug_archive.py", f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"}
    check(tops == own, f"nothing else is at the wheel's top: {sorted(tops)}")
    relative = [link for link in re.findall(r"\]\(([^)#]+)\)", metadata) if "://" not in link]
    check(not relative, f"the README of an index has no relative links: {relative}")
    yield f"wheel: {size:,} bytes and {bundle:,} of the page's script, {len(names)} files"
    with tarfile.open(sources) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    size = sources.stat().st_size
    check(size <= LARGEST_SOURCES, f"the sources have {size:,} of at most {LARGEST_SOURCES:,} bytes")
    check(
        {"NOTICE", "LICENSE", "CITATION.cff", "tests/conftest.py"} <= inside,
        "the sources have what they need",
    )
    check(not any(name.startswith("fixtures") for name in inside), "the sources have no fixtures")
    yield f"source distribution: {size:,} bytes, {len(inside)} files and folders, no fixtures"
    run(tool("twine"), "check", "--strict", wheel, sources)
    yield "twine check --strict: passed"
    run(tool("check-wheel-contents"), wheel)
    yield "check-wheel-contents: passed"


def runs(wheel: Path, scratch: Path) -> Iterator[str]:
    """The wheel in an empty environment of each interpreter at hand, in a folder without a checkout."""
    absent = []
    for version in INTERPRETERS:
        interpreter = interpreter_of(version)
        if interpreter is None:
            absent.append(version)
            continue
        folder = scratch / version
        own = installed(folder, wheel, interpreter=interpreter)
        shown = run(own / "debug-archive", "demo", folder=scratch)
        check("All of it compared and true" in shown, f"the demo runs on {version}")
        run(own / "debug-archive", "demo", "-o", "made", "--json", "--force", folder=scratch)
        run(own / "debug-archive", "verify", "made", folder=scratch)
        run(own / "python", "-m", "archive", "inspect", "made/model.ptl", folder=scratch)
        run(own / "python", "-W", "error", "-c", "from archive import *", folder=scratch)
        if version == INTERPRETERS[0]:
            name = f"{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json"
            run(
                tool("cyclonedx-py"),
                "environment",
                "--output-reproducible",
                "--pyproject",
                ROOT / "pyproject.toml",
                "-o",
                DIST / name,
                own / "python",
            )
            yield f"CycloneDX bill of materials: {name}"
        python = run(own / "python", "--version").strip()
        yield f"{python}: in an empty environment: demo, verify, inspect and all public names well"
    if absent:
        yield f"not at hand, so not tried: Python {', '.join(absent)}"


def interpreter_of(version: str) -> Path | None:
    """An interpreter of a version: on the path, or one of pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [*sorted((root / "versions").glob(f"{version}.*/bin/python{version}"))]
    candidates += [Path(found) for found in [shutil.which(f"python{version}")] if found]
    program = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    for candidate in candidates:
        done = subprocess.run([candidate, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
        if done.stdout.strip() == version:
            return candidate
    return None


def installed(folder: Path, *packages: Path | str, interpreter: Path | None = None) -> Path:
    """The programs of a new environment with these packages, installed one after the other."""
    if interpreter is None:
        venv.create(folder, with_pip=True)
    else:
        run(interpreter, "-m", "venv", folder)
    for package in packages:
        run(folder / "bin" / "python", "-m", "pip", "install", "-q", "--no-input", package)
    return folder / "bin"


def strangers(wheel: Path, scratch: Path) -> Iterator[str]:
    """Another distribution's package ``archive``, installed before and after ours."""
    after = installed(scratch / "after", wheel, STRANGER)
    for words in (["debug-archive"], ["python", "-m", "archive"]):
        said = run(after / words[0], *words[1:], "--version", folder=scratch, status=2)
        check(REFUSAL in said and said.count("\n") == 1, f"a line names {STRANGER}: {said}")
    before = installed(scratch / "before", STRANGER, wheel)
    run(before / "debug-archive", "demo", folder=scratch)
    run(before / "python", "-m", "pip", "uninstall", "-q", "-y", STRANGER)
    said = run(before / "debug-archive", "--version", folder=scratch, status=2)
    check("is not this project's package archive" in said, f"a line says that files are gone: {said}")
    yield f"{STRANGER}, installed before or after: named in a line where it is in the way"


def workflows(scratch: Path) -> Iterator[str]:
    """The action, and the workflow and the hooks that the page about continuous integration shows."""
    workflow, _, hooks = YAML.findall(PAGE.read_text("utf-8"))
    (scratch / "models.yml").write_text(workflow.replace(SHOWN_ACTION, "actions/debug-archive@v1"))
    (scratch / "hooks.yaml").write_text(
        hooks.replace(SHOWN_ADDRESS, f"{PLACEHOLDER}x").replace("<a tag or commit>", "v1")
    )
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", scratch / "models.yml")
    run(
        tool("zizmor"),
        "--offline",
        "--no-progress",
        "--config",
        ROOT / "tools" / "zizmor.yml",
        scratch / "models.yml",
        ROOT / "action.yml",
    )
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-actions", ROOT / "action.yml")
    yield f"action.yml and the workflow of {PAGE.relative_to(ROOT)} pass check-jsonschema and zizmor"
    run(tool("pre-commit"), "validate-config", scratch / "hooks.yaml")
    run(tool("pre-commit"), "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
    yield ".pre-commit-hooks.yaml and how it is used: pre-commit validates both"
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.citation-file-format", ROOT / "CITATION.cff")
    yield "CITATION.cff: valid"


def left(wheel: Path) -> Iterator[str]:
    """What a person has to do before the release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    if project["urls"]["Repository"].startswith(PLACEHOLDER):
        yield f"the repository's address, for which {PLACEHOLDER}… stands in pyproject.toml and CITATION.cff"
    version = wheel.name.split("-")[1]
    dated = re.compile(rf"^## \[{re.escape(version)}\] . \d{{4}}-\d\d-\d\d$", re.MULTILINE)
    if not dated.search((ROOT / "CHANGELOG.md").read_text("utf-8")):
        yield f"CHANGELOG.md has no section [{version}] with a date"
    if shutil.which("git") and f"v{version}" not in run("git", "tag").split():
        yield f"no tag v{version}"


def main(words: Sequence[str]) -> int:
    """Build and check."""
    try:
        wheel, sources = built()
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            scratch = Path(folder)
            for checked in (
                files_hold(wheel, sources),
                workflows(scratch),
                runs(wheel, scratch),
                strangers(wheel, scratch),
            ):
                for line in checked:
                    print(f"well  {line}", flush=True)
    except FailedCheckError as error:
        print(f"release-check: {error}", file=sys.stderr)
        return 1
    undone = list(left(wheel))
    for line in undone:
        print(f"left  {line}")
    return 1 if undone and "--final" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
