"""PyTorch asked again what it was asked when the fixtures were made: calls that fail, and calls that work."""

from __future__ import annotations

import io
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.corpus import ORACLES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

LIBRARIES = [
    Path(torch.__file__).parent / "lib" / name
    for name in ("libbackend_with_compiler.so", "libjitbackend_test.so")
]
CURRENT = RELEASES / "torch-2.13.0"
FRAMES = re.compile(r"^(?:\s*frame #\d+.*|<omitting python frames>)\n", re.MULTILINE)
LOCATION = re.compile(r"Exception raised from .*")
TENSOR = re.compile(r"(?P<type>[a-z0-9]+)\[(?P<shape>[\d, ]*)\]")
ROWS = (torch.arange(8).float().reshape(2, 4),)
PAIR = (torch.ones(2, 3), torch.ones(2, 3) * 3)
GOOD = {"unicode": PAIR, "lowered": PAIR, "host": PAIR, "consts": (torch.arange(8).float(),)}
"""Arguments that a model takes; the others take ROWS."""


class Call(NamedTuple):
    """One call, and the text that PyTorch 2.13 failed with when the fixtures were made."""

    path: Path
    method: str
    arguments: tuple[object, ...]
    error: str


def have_backends() -> None:
    """Load the demo backends, or skip the test."""
    for library in LIBRARIES:
        if not library.exists():
            pytest.skip("this build of PyTorch does not bring the demo backends")
        torch.ops.load_library(str(library))


def argument(text: str) -> object:
    """What ``float32[2, 3]``, ``ones[2, 3]`` or ``2`` stands for: tensors are of ones."""
    found = TENSOR.fullmatch(text)
    if not found:
        return int(text)
    shape = [int(size) for size in found["shape"].split(",")]
    return torch.ones(
        shape, dtype=torch.float32 if found["type"] == "ones" else getattr(torch, found["type"])
    )


def clean(text: str) -> str:
    """A text without what differs from machine to machine."""
    return LOCATION.sub("Exception raised from <C++ location>", FRAMES.sub("", text))


def loaded(path: Path) -> Callable[..., object]:
    """A model: ``.ptl`` by the lite interpreter, ``.pt`` by TorchScript."""
    model = torch.jit.mobile._load_for_lite_interpreter if path.suffix == ".ptl" else torch.jit.load
    made: Callable[..., object] = model(str(path))
    return made


def called(path: Path, method: str, arguments: tuple[object, ...]) -> object:
    """What a method of a model returns."""
    model = loaded(path)
    if method == "forward":
        return model(*arguments)
    if path.suffix == ".ptl":
        return model.run_method(method, *arguments)  # type: ignore[attr-defined]
    return getattr(model, method)(*arguments)


def failure(path: Path, method: str, arguments: tuple[object, ...]) -> str:
    """What a method of a model fails with."""
    with pytest.raises((RuntimeError, IndexError)) as caught:
        called(path, method, arguments)
    return clean(str(caught.value))


@cache
def cases() -> tuple[Call, ...]:
    """The calls of the oracles that fail."""
    listed = json.loads((ORACLES / "manifest.json").read_text("utf-8"))
    found = []
    for case in listed:
        for file in case.get("files", []) if case["kind"] != "ok" else []:
            text = ORACLES / f"{case['case']}{'' if file.endswith('.ptl') else '.jit'}.txt"
            arguments = tuple(map(argument, case["args"]))
            found.append(Call(ORACLES / file, "forward", arguments, text.read_text("utf-8")))
    return tuple(found)


@cache
def answers() -> tuple[Call, ...]:
    """The calls of 2.13's archives that fail."""
    found = []
    for made in json.loads((CURRENT / "made.json").read_text("utf-8"))["files"]:
        for one in made["oracle"].get("errors") or made["oracle"]["lite_errors"]:
            arguments = tuple(map(argument, one["args"]))
            error = (
                one["error"]
                .partition(": ")[2]
                .replace("<C++ location>", "Exception raised from <C++ location>")
            )
            found.append(Call(CURRENT / made["file"], one["method"], arguments, error))
    return tuple(found)


def result(path: Path, case: str) -> object:
    """What a model of 2.13 makes of arguments that it takes, or what it fails with nevertheless."""
    try:
        return called(path, "forward", GOOD.get(case, ROWS))
    except RuntimeError as error:
        return error


def loads(data: bytes) -> list[str]:
    """What TorchScript and, of archives for it, the lite interpreter fail with."""
    loaders = [torch.jit.load]
    if b"/bytecode.pkl" in data:
        loaders.append(torch.jit.mobile._load_for_lite_interpreter)
    errors = []
    for load in loaders:
        try:
            load(io.BytesIO(data))
        except (RuntimeError, torch.jit.Error) as error:
            errors.append(str(error))
        except UnicodeDecodeError as error:  # the message quotes one byte of a character
            errors.append(error.object.decode(errors="replace"))
    return errors
