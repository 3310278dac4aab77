"""A lowered module with effects is loaded and called once before anybody gets it."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from archive.backend.effectful import Effectful
from archive.backend.errors import BackendError
from archive.backend.lower.codegen import UNAVAILABLE
from archive.backend.lower.saving import write_lowered
from archive.effects.capturing import UntriedWarning
from archive.effects.errors import CaptureError
from archive.effects.trial.child import UntriedError
from archive.effects.trial.trial import fresh_arguments
from archive.effects.trial.twin import Everything

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from archive.effects.capturing import Untried

NOT_AVAILABLE = (UNAVAILABLE, "is not available")


def try_lowered(untried: Untried, lowered: torch.jit.ScriptModule, arguments: Sequence[Any]) -> None:
    """Save a lowered module, load it and call it, and try what it was made of, in one child process.

    What it computes is the backend's: only the captured graph is compared with the module.

    Args:
        untried: what was captured, and is tried as well.
        lowered: the module, lowered with effects.
        arguments: of the call.

    Raises:
        CaptureError: what was captured does something else than the module, or what was lowered cannot be
            saved, loaded or called.
    """

    def played() -> list[Any] | None:
        try:
            file = io.BytesIO()
            write_lowered(lowered, file, "the lowered module", lite=False)
            loaded = Effectful.load(file.getvalue(), allow=Everything({}))
            loaded(*fresh_arguments(arguments))
        except BackendError as error:
            if error.message.endswith(NOT_AVAILABLE):
                return None  # as PyTorch has warned
            return _said(error)
        except Exception as error:  # noqa: BLE001 (whatever it is, it does not work)
            return _said(error)
        return None

    try:
        found = untried.tried_with(played, stacklevel=5)
    except UntriedError as error:
        warnings.warn(f"what was lowered was not tried: {error}", UntriedWarning, stacklevel=4)
        return
    if found is not None:
        name = type(untried.capture.module).__qualname__
        raise CaptureError(f"what was lowered of a {name} does not work: {found[0]}")


def _said(error: Exception) -> list[Any]:
    return [f"{type(error).__name__}: {error}"]
