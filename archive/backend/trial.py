"""A lowered module with effects is loaded and called before anybody gets it, as often as the module is."""

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
from archive.effects.replay.errors import GuardError
from archive.effects.trial.child import UntriedError
from archive.effects.trial.trial import fresh_arguments, is_lacking
from archive.effects.trial.twin import Everything

if TYPE_CHECKING:
    import torch

    from archive.effects.capturing import Untried

NOT_AVAILABLE = (UNAVAILABLE, "is not available")


def try_lowered(untried: Untried, lowered: torch.jit.ScriptModule) -> None:
    """Save a lowered module, load it and call it, and try what it was made of, in one child process.

    What it computes is the backend's: only the captured graph is compared with the module. A call that a
    guard refuses is the last one, as in the trial of the graph.
    """
    calls = untried.capture.starts[0].calls

    def played() -> list[Any] | None:
        number = 0
        try:
            file = io.BytesIO()
            write_lowered(lowered, file, "the lowered module", lite=False)
            loaded = Effectful.load(file.getvalue(), allow=Everything({}))
            for number, arguments in enumerate(calls):  # noqa: B007 (what fails has a number)
                loaded(*fresh_arguments(arguments))
        except BackendError as error:
            if error.message.endswith(NOT_AVAILABLE):
                return None  # as PyTorch has warned
            return [number, _said(error)]
        except GuardError as error:
            return [number, _said(error)] if number == 0 or is_lacking(error) else None
        except Exception as error:  # noqa: BLE001 (whatever it is, it does not work)
            return [number, _said(error)]
        return None

    try:
        found, calls_made = untried.tried_with(played, stacklevel=5)
    except UntriedError as error:
        warnings.warn(f"what was lowered was not tried: {error}", UntriedWarning, stacklevel=4)
        return
    if found is not None and (found[0] == 0 or found[0] < calls_made):
        name = type(untried.capture.module).__qualname__
        where = f" in call {found[0] + 1} of the examples" if found[0] else ""
        raise CaptureError(f"what was lowered of a {name} does not work{where}: {found[1]}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
