"""The committed bundle is what its sources make, and fit to stand in a page."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from tests.page.browser import ROOT
from tests.support.sampling import whole_suite

PAGE = ROOT / "tools/page"
BUNDLE = ROOT / "archive/page/bundle"


@whole_suite
@pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="node and npm rebuild it")
def test_it_is_what_its_sources_make() -> None:
    command = [sys.executable, "-m", "tools.page", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode and not (PAGE / "node_modules/.package-lock.json").exists():
        pytest.skip(f"npm cannot install the packages here: {done.stderr.strip().splitlines()[-1:]}")
    assert done.returncode == 0, done.stderr


def test_it_is_small_and_fit_to_be_embedded() -> None:
    script, style = ((BUNDLE / name).read_bytes() for name in ("page.js", "page.css"))
    assert len(script) < 440_000
    for text in (script, style):
        assert text.isascii()
        assert b"</script" not in text.lower()
        assert b"</style" not in text.lower()
        assert b"<!--" not in text
    assert b"@import" not in style
    assert b"url(" not in style


def test_each_package_in_it_has_its_licence() -> None:
    licences = (BUNDLE / "LICENSES.txt").read_text("utf-8")
    wanted = json.loads((PAGE / "package.json").read_text("utf-8"))["dependencies"]
    for name, version in wanted.items():
        assert f"{name} {version} (" in licences


def test_packages_are_pinned_by_digest_and_named_without_a_registry() -> None:
    lock = (PAGE / "package-lock.json").read_text("utf-8")
    assert "resolved" not in lock
    assert "http" not in lock.replace("https://opencollective.com", "").replace("https://github.com", "")
    packages = json.loads(lock)["packages"]
    assert all("integrity" in entry for name, entry in packages.items() if name)
    declared = json.loads((PAGE / "package.json").read_text("utf-8"))
    for version in (*declared["dependencies"].values(), *declared["devDependencies"].values()):
        assert version[0].isdigit()
