"""Runs a model that AOTInductor compiled. Its kernels are machine code: only what it returns is noted."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from archive.backend.values.observing import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.export.pt2_archive._package import AOTICompiledModel

    from archive.backend.values.inputs import Inputs
    from archive.backend.values.observing import KeptValues
    from archive.debuginfo.values.observed import Observed
    from archive.reader.compiled import CompiledModel

COMPILED = "AOTInductor"
KERNELS, WHOLE = "calls of kernels", "compiled model"
CHECKS = "AOTI_RUNTIME_CHECK_INPUTS"
"""Makes a compiled model refuse inputs of other sizes, which it would read beyond their ends."""


def observe_compiled(
    runner: AOTICompiledModel, compiled: CompiledModel, inputs: Inputs, values: KeptValues | None
) -> Observed:
    """Run a compiled model once.

    Args:
        runner: as PyTorch loads it.
        compiled: the same as this library reads it, for its kernels.
    """
    recorder = Recorder(COMPILED, values)
    with _checked():
        result = runner(*inputs.args, **inputs.named)
    recorder.note_outputs(result)
    unseen = recorder.observed.unseen
    unseen[KERNELS if compiled.kernels else WHOLE] = len(compiled.kernels) or 1
    return recorder.finish([])


@contextmanager
def _checked() -> Iterator[None]:
    """Compiled models look at the variable when they are first called."""
    before = os.environ.get(CHECKS)
    os.environ[CHECKS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[CHECKS]
        else:
            os.environ[CHECKS] = before
