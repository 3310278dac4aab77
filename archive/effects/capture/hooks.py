"""Hooks on tensors: noted by their functions' names, put on when the effects are done."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Self

from archive.effects.capture.guards import WITHOUT_MODES

if TYPE_CHECKING:
    from archive.effects.capture.recorder import Recorder


class HookHandle:
    """What ``register_hook`` gives while a model is captured.

    Args:
        recorder: of the call.
        tensor: that has the hook.
        number: of the hook.
    """

    def __init__(self, recorder: Recorder, tensor: Any, number: int) -> None:  # noqa: ANN401
        self._recorder = recorder
        self._tensor = tensor
        self._number = number

    def remove(self) -> None:
        """Take the hook off; a second time does nothing, as in PyTorch."""
        if self._number in self._recorder.side_effects.tensor_hooks:
            self._recorder.side_effects.remove_hook(self._number)
            # No effect is left that fails, as PyTorch does, for a tensor without gradient: a guard does.
            with WITHOUT_MODES():
                self._recorder.sizes.gradient(self._tensor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Hooks:
    """Registers hooks.

    Args:
        recorder: of the call.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def register(self, tensor: Any, hook: Any) -> HookHandle:  # noqa: ANN401
        """Put a hook on a tensor.

        Raises:
            CaptureError: the hook cannot be found by a name, or the tensor has no gradient.
        """
        recorder = self._recorder
        if not tensor.requires_grad:
            recorder.refuse("cannot register a hook on a tensor that doesn't require gradient")
        variable = recorder.side_effects.id_to_variable.get(id(hook))
        function = recorder.items[variable] if variable is not None else hook
        name = importable(function)
        if name is None:
            recorder.refuse("a hook that is no function of a Python module: it cannot be found by a name")
        number = recorder.side_effects.register_hook(tensor, name, recorder.here())
        return HookHandle(recorder, tensor, number)


def importable(value: Any) -> str | None:  # noqa: ANN401
    """The name by which a function or class can be imported, as ``module:qualname``; None if by none."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if found is value else None
