"""The public interface is what ``public_api.txt`` lists: no name, option or number changes unannounced."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import archive
from tools.public_api import CORE, TORCH, section, stub

LISTED = Path(__file__).with_name("public_api.txt")
ADVICE = (
    "The public interface has changed. If that is meant, run `python -m tools.public_api > "
    "tests/project/public_api.txt` (it needs PyTorch) and add a line for users to CHANGELOG.md."
)
TORCH_SECTIONS = [pytest.param(name, marks=pytest.mark.torch) for name in TORCH]


def listed() -> dict[str, str]:
    parts = re.split(r"^\[(.+)\]\n", LISTED.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.rstrip("\n") for name, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("name", [*CORE, *TORCH_SECTIONS])
def test_the_public_interface_is_as_listed(name: str) -> None:
    if name in TORCH and find_spec("torch") is None:
        pytest.skip("no PyTorch")
    assert section(name).splitlines() == listed()[name].splitlines(), ADVICE


def test_every_section_is_listed_in_order() -> None:
    assert list(listed()) == [*CORE, *TORCH], ADVICE
    assert all(listed().values())


def test_type_checkers_know_the_names_that_are_imported_lazily() -> None:
    advice = "run `python -m tools.public_api --stub > archive/__init__.pyi`"
    assert Path(archive.__file__).with_suffix(".pyi").read_text(encoding="utf-8") == stub(), advice


def test_a_changed_signature_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.convert", lambda source, out, *, force=True: (source, out, force))
    assert "def convert(source, out, *, force=True)" in section("archive").splitlines()
    assert section("archive").splitlines() != listed()["archive"].splitlines()
