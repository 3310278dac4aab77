"""What a model is run with: tensors from files, those that a model has with it, random ones, or values.

Nothing here executes a pickle: ``.pt`` files are loaded as tensors and plain containers only
(``weights_only``), arrays without objects.
"""

from __future__ import annotations

import re
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from archive.backend.pytorch import message_of
from archive.base.errors import ArchiveError, one_line
from archive.effects.nested import with_tensors
from archive.io.urls import name_of
from archive.reader.opening import open as open_archive
from archive.reader.recognition import FileKind, recognise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.formats.exported.inputs import ProgramInput

UNNAMED = re.compile(r"arr_\d+")
"""Names that NumPy gives arrays without one."""
NUMPY_HEADS = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")
"""How files of arrays begin: one array, a zip of some, a zip of none."""
NO_INPUTS = "no inputs can be read from it"
FILES = (".pt", ".pth", ".npz", ".npy", ".safetensors")


class Inputs(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def text(self) -> str:
        """The arguments in words: ``float32 of shape (1, 3), mask: bool of shape (1, 4)``."""
        named = [f"{name}: {described(value)}" for name, value in self.named.items()]
        return ", ".join([*map(described, self.args), *named]) or "no inputs"

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.args or self.named)

    def copied(self) -> Inputs:
        """The same with tensors of its own, which a model may change."""
        return Inputs(*with_tensors(tuple(self), torch.clone))


def described(value: object) -> str:
    """An argument in words."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return type(value).__name__


def is_file(text: str) -> bool:
    """Whether an input is named by its file."""
    return text.endswith(FILES)


def read_inputs(path: str) -> Inputs:
    """The arguments in a file: of ``.pt`` a tensor, a list or tuple of arguments, or a dictionary by name.

    Raises:
        ArchiveError: it is of another form, or holds objects.
    """
    value = _read(path)
    if isinstance(value, dict):
        if all(isinstance(name, str) for name in value):
            return Inputs((), value)
        raise ArchiveError("has inputs whose names aren't texts", file=name_of(path))
    return Inputs(tuple(value) if isinstance(value, (list, tuple)) else (value,), {})


def _read(path: str) -> object:
    try:
        if path.endswith((".npz", ".npy")):
            return _arrays(path)
        if path.endswith(".safetensors"):
            return _safetensors(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except (ArchiveError, OSError):
        raise
    except UnpicklingError as error:  # PyTorch's advice would run what is in the file
        raise _no_inputs(path, f"tensors and plain values, found {recognise(path).what}") from error
    except Exception as error:  # PyTorch and NumPy raise errors of any kind for broken files
        raise ArchiveError(f"{NO_INPUTS}: {one_line(message_of(error))}", file=name_of(path)) from error


def _no_inputs(path: str, expected: str) -> ArchiveError:
    return ArchiveError(f"{NO_INPUTS}: expected {expected}", file=name_of(path))


def _arrays(path: str) -> object:
    """The arrays in a file of NumPy's, which takes any other file for a pickle, and advises to run it."""
    with Path(path).open("rb") as file:
        head = file.read(max(map(len, NUMPY_HEADS)))
    if not head.startswith(NUMPY_HEADS):
        raise _no_inputs(path, f"arrays of NumPy's, found {recognise(path).what}")
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return torch.from_numpy(loaded)
        arrays = {name: torch.from_numpy(loaded[name]) for name in loaded.files}
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise _no_inputs(path, "arrays of numbers, found objects of Python") from error
    return [*arrays.values()] if all(map(UNNAMED.fullmatch, arrays)) else arrays


def _safetensors(path: str) -> dict[str, torch.Tensor]:
    """The tensors of a file by name."""
    with open_archive(path, kinds={FileKind.SAFETENSORS}) as opened:
        made = {}
        for name, tensor in opened.tensors.items():
            kind = getattr(torch, tensor.dtype)
            data = bytearray(b"".join(opened.tensors.elements(name)))
            empty = torch.empty(tensor.shape, dtype=kind)
            made[name] = torch.frombuffer(data, dtype=kind).reshape(tensor.shape) if data else empty
        return made


def wants_of(wanted: Sequence[ProgramInput]) -> str:
    """The inputs of a program in words, and the options that give a command such ones."""
    texts = "; ".join(each.text for each in wanted)
    if not wanted or any(not each.dtype for each in wanted):
        return texts or "no inputs"
    sizes = ["x".join(str(size) for size in _sizes(each)) for each in wanted]
    options = [f"--input {size}:{each.dtype}" for size, each in zip(sizes, wanted, strict=True)]
    return f"{texts}: {' '.join(options)}"


def without_shapes(wants: str, file: str) -> ArchiveError:
    """The refusal of random inputs for a model that does not say the shapes of its inputs."""
    return ArchiveError(
        f"does not say the shapes of its inputs ({wants}): give them, as in --input 1x3x224x224", file=file
    )


def random_inputs(wanted: Sequence[ProgramInput], seed: int, file: str) -> Inputs:
    """Inputs by a model's own shapes: floats from 0 to 1, other numbers 0 or 1; the same for each seed.

    Sizes that may vary are 2, or the smallest that they may be.

    Raises:
        ArchiveError: the model does not say what it takes.
    """
    if any(not each.dtype for each in wanted):
        raise without_shapes("; ".join(each.text for each in wanted), file)
    generator = torch.Generator().manual_seed(seed)
    made = []
    for each in wanted:
        sizes = _sizes(each)
        kind = getattr(torch, each.dtype)
        if kind.is_floating_point or kind.is_complex:
            made.append(torch.rand(sizes, generator=generator).to(kind))
        else:
            made.append(torch.randint(0, 2, sizes, generator=generator).to(kind))
    return Inputs(tuple(made), {})


def _sizes(each: ProgramInput) -> list[int]:
    """Sizes that an input may have."""
    return [size if isinstance(size, int) else _least(each, size) for size in each.sizes]


def _least(each: ProgramInput, size: str) -> int:
    """The smallest value of a size that may vary; programs specialise 0 and 1, so 2 if that is in range."""
    low, high = each.ranges.get(size, (2, None))
    return low if high is not None and high < 2 else max(low, 2)  # noqa: PLR2004


def by_position(given: Inputs, names: Sequence[str], wants: str, file: str) -> Inputs:
    """Arguments in the order of a method's parameters.

    Raises:
        ArchiveError: the method has no parameter of a name, one is given twice, or one before it is missing.
    """
    rest = names[len(given.args) :]
    ordered = [given.named[name] for name in rest if name in given.named]
    if set(rest[: len(given.named)]) != set(given.named):
        raise ArchiveError(expected=wants, found=given.text, file=file)
    return Inputs((*given.args, *ordered), {})
