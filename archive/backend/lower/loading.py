"""Checks that PyTorch loads a saved archive, in the way in which it will be used."""

from __future__ import annotations

import re
import warnings
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.jit.mobile

from archive.backend.lower.codegen import UNAVAILABLE
from archive.debuginfo.excerpt import excerpt
from archive.effects.errors import LoweringError
from archive.formats.record_kinds import range_records_of

if TYPE_CHECKING:
    from typing import BinaryIO

    from archive.debuginfo.model import SourceRange
    from archive.reader.archive import Archive

GENERATED_FRAME = re.compile(rb'  File "(code/[^"\n]+)", line (\d+).*\n(?:(?! *~).*\n)*?( *)~')
"""A frame in generated code, as PyTorch shows it. Groups: record, line number, blanks before the ``~~~``."""


def check_loading(file: BinaryIO, opened: Archive, *, lite: bool) -> None:
    """Have PyTorch load an archive. An archive whose backend is not available here passes.

    Args:
        file: the archive.
        opened: the same archive, opened by this library.
        lite: whether the lite interpreter loads it, instead of TorchScript.

    Raises:
        LoweringError: PyTorch refuses the archive. The error has PyTorch's message, and the model's source if
            the message names a line of generated code.
    """
    load = torch.jit.mobile._load_for_lite_interpreter if lite else torch.jit.load
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch gave the same warnings when it saved the archive
            load(_named(file))
    except Exception as error:  # of any kind, as code generated from the model runs
        said = str(error).strip()
        if any(line.endswith(UNAVAILABLE) for line in said.splitlines()):
            return
        message = f"PyTorch does not load what it saved; nothing is written: {_message(said)}"
        span = _model_source(said.encode(), opened)
        shown = "" if span is None else excerpt(span, b"").decode("utf-8", "backslashreplace")
        raise LoweringError(f"{message}. Source code: {shown}" if shown else message) from error


def _named(file: BinaryIO) -> BinaryIO | str:
    """A name of an open file, if the system has one: by that, PyTorch reads it tensor by tensor."""
    file.seek(0)
    try:
        file.flush()
        name = f"/proc/self/fd/{file.fileno()}"
    except OSError:  # a file in memory
        return file
    return name if Path(name).exists() else file


def _message(said: str) -> str:
    """PyTorch's message without frames: the text before them, or the last line if they come first."""
    before, _, places = said.partition('\n  File "')
    return (
        places.rstrip().rpartition("\n")[2] if before.startswith("The following") else before.rstrip(":\n ")
    )


def _model_source(said: bytes, opened: Archive) -> SourceRange | None:
    """The model's source for the last frame in generated code that PyTorch shows; None if it shows none."""
    span = None
    for name, line, blanks in GENERATED_FRAME.findall(said):
        record = name.decode("utf-8", "surrogateescape")
        if record in opened.records and any(one in opened.records for one in range_records_of(record)):
            lines = bytes(opened.records[record].view()).split(b"\n")
            starts = list(accumulate((len(one) + 1 for one in lines), initial=0))
            span = opened.locate(record, starts[int(line) - 1] + len(blanks))
    return span
