"""``make release-check`` fails where what is published is not as it should be."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import archive
from tools import release

if TYPE_CHECKING:
    from collections.abc import Mapping

STEM = f"debug_archive-{archive.__version__}"
METADATA = f"{STEM}.dist-info/METADATA"
WHEEL = {"archive/__init__.py": b"", "debug_archive.py": b"", METADATA: b"[a](https://a.example/b)"}
SOURCES = {f"{STEM}/{name}": b"" for name in ("NOTICE", "LICENSE", "CITATION.cff", "tests/conftest.py")}


def checked(folder: Path, wheel: Mapping[str, bytes], sources: Mapping[str, bytes]) -> list[str]:
    """What is told of two files before other tools look at them."""
    with zipfile.ZipFile(folder / f"{STEM}-py3-none-any.whl", "w") as written:
        for name, data in wheel.items():
            written.writestr(name, data)
    with tarfile.open(folder / f"{STEM}.tar.gz", "w:gz") as packed:
        for name, data in sources.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    told = release.files_hold(folder / f"{STEM}-py3-none-any.whl", folder / f"{STEM}.tar.gz")
    return [next(told), next(told)]


def test_files_as_they_should_be_are_told_with_their_sizes(tmp_path: Path) -> None:
    wheel, sources = checked(tmp_path, WHEEL | {"archive/page/bundle/page.js": b"x" * 2_000_000}, SOURCES)
    assert wheel.endswith("bytes and 2,000,000 of the page's script, 4 files")
    assert sources.endswith("no fixtures")


@pytest.mark.parametrize(
    ("wheel", "sources", "problem"),
    [
        ({METADATA: b"[a](docs/b.md)"}, {}, "no relative links"),
        ({"archive/large": b"x" * release.LARGEST_WHEEL}, {}, f"of at most {release.LARGEST_WHEEL:,} bytes"),
        ({"tests/x.py": b""}, {}, "'tests'"),
        ({}, {f"{STEM}/fixtures/a.pt": b""}, "the sources have no fixtures"),
    ],
)
def test_a_fault_of_a_file_ends_it(
    wheel: dict[str, bytes], sources: dict[str, bytes], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(release.FailedCheckError, match=problem):
        checked(tmp_path, WHEEL | wheel, SOURCES | sources)


def test_an_interpreter_is_found_by_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = tmp_path / "versions" / f"{version}.99" / "bin"
    folder.mkdir(parents=True)
    (folder / f"python{version}").symlink_to(sys.executable)
    assert release.interpreter_of(version) == folder / f"python{version}"
    assert release.interpreter_of("3.99") is None


def test_a_program_that_fails_ends_it_with_its_words() -> None:
    with pytest.raises(release.FailedCheckError, match=r"status 3\nno$"):
        release.run(sys.executable, "-c", "import sys; sys.stderr.write('no'); sys.exit(3)")


def test_what_a_person_has_to_do_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: None)
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://example.invalid/x"\n')
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")
    address, changelog = release.left(Path(f"{STEM}-py3-none-any.whl"))
    assert "address" in address
    assert f"no section [{archive.__version__}] with a date" in changelog
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://a.example/x"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"## [{archive.__version__}] \N{EN DASH} 2027-01-02\n")
    assert list(release.left(Path(f"{STEM}-py3-none-any.whl"))) == []
