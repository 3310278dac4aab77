"""The state of a backend as a program keeps it: tensors, the first of which is a text in UTF-8.

The text is JSON, in the forms of :mod:`archive.backend.aten.constants`, and refers to the tensors after it.
It is a tensor, too, since texts stand in the program's code, and so in each traceback.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.aten.constants import (
    TensorAt,
    from_json,
    is_constant,
    packed,
    resolved,
)
from archive.base.errors import ArchiveError, shown
from archive.effects.nested import with_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence


def written(state: Any) -> list[torch.Tensor]:  # noqa: ANN401 (of any backend)
    """A state as tensors.

    Raises:
        LoweringError: it holds something else than numbers, texts, tensors, lists, tuples and dicts.
    """
    tensors: list[torch.Tensor] = []

    def placed(tensor: torch.Tensor) -> TensorAt:
        tensors.append(tensor)
        return TensorAt(len(tensors) - 1)

    text = json.dumps(packed(with_tensors(state, placed)), allow_nan=False)
    return [torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8), *tensors]


def read(state: Sequence[torch.Tensor]) -> Any:  # noqa: ANN401
    """The state of some tensors. Anybody may have written them: the text is checked."""
    if not state or state[0].dtype != torch.uint8:
        raise ArchiveError(expected="a state with its text", found=f"{len(state)} tensors")
    text, tensors = state[0].cpu().numpy().tobytes(), state[1:]
    try:
        value = from_json(text.decode())
        is_state = is_constant(value, len(tensors), 0)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(expected="a state as JSON", found=shown(str(error))) from error
    if not is_state:
        raise ArchiveError(expected=f"a state with {len(tensors)} tensors", found=shown(text.decode()))
    return resolved(value, tensors, [])
