"""``verify`` of exported programs, compared with what PyTorch 2.13 loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.verbs.verify import verify
from tests.support.broken_programs import BROKEN
from tests.support.exported import PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broken_programs import Broken


@pytest.mark.parametrize("broken", BROKEN, ids=[one.what for one in BROKEN])
def test_what_pytorch_refuses_is_an_error_with_its_json_path(broken: Broken) -> None:
    found = [one for one in verify(broken.made()) if one.severity == "error"]
    places = [one.place for one in found if "PyTorch 2.13 refuses it" in one.message]
    assert broken.place.replace('"', "") in places


@pytest.mark.torch
@pytest.mark.parametrize("broken", BROKEN, ids=[one.what for one in BROKEN])
def test_pytorch_refuses_it_with_the_message_that_is_told(broken: Broken) -> None:
    from tests.support.torch_exported import refusal  # noqa: PLC0415 (needs PyTorch)

    assert broken.message in refusal(broken.made())


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_programs_of_pytorch_are_well(path: Path) -> None:
    assert [one for one in verify(path) if one.severity != "note"] == []
