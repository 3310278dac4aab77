"""A lowered module with effects is loaded and called once before anybody gets it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from archive.backend.effectful import Effectful
from archive.backend.errors import BackendError
from archive.backend.lower.codegen import UNAVAILABLE
from archive.backend.lower.saving import lowered_archive
from archive.effects.capturing import UntriedWarning
from archive.effects.errors import CaptureError
from archive.effects.trial.child import UntriedError, in_child
from archive.effects.trial.trial import fresh_arguments
from archive.effects.trial.twin import Everything

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

NOT_AVAILABLE = (UNAVAILABLE, "is not available")


def try_lowered(lowered: torch.jit.ScriptModule, module: torch.nn.Module, arguments: Sequence[Any]) -> None:
    """Save a lowered module, load it and call it, in a child process.

    What it computes is the backend's: only the captured graph is compared with the module.

    Args:
        lowered: the module, lowered with effects.
        module: the one that was lowered.
        arguments: of the call.

    Raises:
        CaptureError: it cannot be saved, loaded or called.
    """

    def played() -> list[Any] | None:
        try:
            loaded = Effectful.load(lowered_archive(lowered), allow=Everything({}))
            loaded(*fresh_arguments(arguments))
        except BackendError as error:
            if error.message.endswith(NOT_AVAILABLE):
                return None  # as PyTorch has warned
            return _said(error)
        except Exception as error:  # noqa: BLE001 (whatever it is, it does not work)
            return _said(error)
        return None

    try:
        found = in_child(played)
    except UntriedError as error:
        warnings.warn(f"what was lowered was not tried: {error}", UntriedWarning, stacklevel=4)
        return
    if found is not None:
        raise CaptureError(f"what was lowered of a {type(module).__qualname__} does not work: {found[0]}")


def _said(error: Exception) -> list[Any]:
    return [f"{type(error).__name__}: {error}"]
