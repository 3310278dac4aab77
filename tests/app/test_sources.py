"""Whatever takes the paths of models says alike that nothing of them is a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

TAKING: dict[str, Callable[[Any], object]] = {
    "install": archive.install,
    "Explainer": archive.Explainer,
    "explain": lambda models: archive.explain("a log", models),
    "explain, a stream": lambda models: [*archive.explain([b"a log"], models)],
}
GIVEN = {
    "nosuch": "no such file or folder: give archives, companions, folders",
    "nosuch/*.pt": "a pattern, which is not searched for: give archives, companions, folders",
    "empty": "no archive or companion in it",
    "texts": "no archive or companion in it, but other files: 1 (text: 1)",
    "texts/a.txt": "a text file (it begins with 'hello')",
}


@pytest.mark.parametrize("takes", TAKING)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("form", ["text", "path", "list"])
def test_what_holds_no_model_is_refused_in_one_error_that_names_it(
    takes: str, given: str, form: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("hello")
    path = tmp_path / given
    models = {"text": str(path), "path": path, "list": [str(path)]}[form]
    with pytest.raises(ArchiveError) as raised:
        TAKING[takes](models)
    assert str(raised.value).startswith(f"{path}: {GIVEN[given]}")
    assert raised.value.__context__ is None, "no error of Python's own stands above it"


@pytest.mark.parametrize("takes", TAKING)
def test_no_models_are_refused(takes: str) -> None:
    with pytest.raises(ArchiveError, match=r"^no models: give archives, companions, folders"):
        TAKING[takes]([])
