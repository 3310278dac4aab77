"""Copies of archives without some of their records, by PyTorch's own reader and writer."""

# TorchScript reads the annotations of attributes: they must not be postponed.
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.corpus import CALLSTACKS

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

WRITTEN_ANEW = {"version", ".data/version", "byteorder", ".data/serialization_id"}


def without(path: Path, target: Path, is_left_out: Callable[[str], bool]) -> Path:
    """A copy of an archive without some of its records."""
    reader, writer = torch._C.PyTorchFileReader(str(path)), torch._C.PyTorchFileWriter(str(target))
    for name in reader.get_all_records():
        if name not in WRITTEN_ANEW and not is_left_out(name):
            data = reader.get_record(name)
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return target


def without_debug_info(path: Path, target: Path) -> Path:
    """A copy of an archive without source ranges and call stacks."""
    return without(path, target, lambda name: name.endswith(".debug_pkl") or name == CALLSTACKS)
