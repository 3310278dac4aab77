"""The state of a backend as a program keeps it: text, and the tensors in it beside that.

The text is JSON, in the forms of :mod:`archive.backend.aten.constants`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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

    import torch


def written(state: Any) -> tuple[str, list[torch.Tensor]]:  # noqa: ANN401 (of any backend)
    """A state as text, and its tensors.

    Raises:
        LoweringError: it holds something else than numbers, texts, tensors, lists, tuples and dicts.
    """
    tensors: list[torch.Tensor] = []

    def placed(tensor: torch.Tensor) -> TensorAt:
        tensors.append(tensor)
        return TensorAt(len(tensors) - 1)

    return json.dumps(packed(with_tensors(state, placed)), allow_nan=False), tensors


def read(text: str, tensors: Sequence[torch.Tensor]) -> Any:  # noqa: ANN401
    """The state of a text and tensors. Anybody may have written the text: it is checked."""
    try:
        value = from_json(text)
        is_state = is_constant(value, len(tensors), 0)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(expected="a state as JSON", found=shown(str(error))) from error
    if not is_state:
        raise ArchiveError(expected=f"a state with {len(tensors)} tensors", found=shown(text))
    return resolved(value, tensors, [])
