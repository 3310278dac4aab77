"""Inference mode inside a model: the graph computes without gradients, and replay makes inference tensors.

Such a tensor has no version counter, which a capture needs. So the call works with ordinary tensors, and
notes which ones PyTorch would have made in inference mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.operations import MADE_IN_INFERENCE, VIEW_IN_INFERENCE
from archive.effects.looking import WITHOUT_MODES

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall


class InferenceRegion:
    """The context in place of PyTorch's own.

    Args:
        call: the captured call.
        mode: whether inference mode is turned on.
    """

    def __init__(self, call: CapturedCall, mode: bool) -> None:  # noqa: FBT001 (PyTorch's signature)
        self._call, self._mode = call, mode
        self._without_gradients = torch.no_grad()

    def __enter__(self) -> None:
        if self._mode:
            self._call.inference += 1
            self._without_gradients.__enter__()
        elif self._call.inference:
            self._call.refuse("inference mode that is turned off inside of inference mode")

    def __exit__(self, *error: object) -> None:
        if self._mode:
            self._call.inference -= 1
            self._without_gradients.__exit__(*error)


class InferenceTensors:
    """The inference tensors of one call.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def note(self, value: Any, given: list[Any], versions: list[int]) -> None:  # noqa: ANN401
        """Note what an operation has made.

        Args:
            value: its result.
            given: the tensors that it took.
            versions: their version counters before.

        Raises:
            CaptureError: PyTorch would refuse the operation.
        """
        known = self._call.inference_tensors
        if not self._call.inference and not known:
            return
        with WITHOUT_MODES():
            taken = [one for one in given if id(one) in known]
            if taken and not self._call.inference:
                self._check(value, taken, dict(zip(map(id, given), versions, strict=True)))
            for one in value if isinstance(value, tuple | list) else (value,):
                if isinstance(one, torch.Tensor) and all(one is not other for other in given):
                    self._note_one(one, given)

    def _check(self, value: Any, taken: list[Any], versions: dict[int, int]) -> None:  # noqa: ANN401
        """Refuse what autograd cannot do with inference tensors."""
        if any(one._version != versions[id(one)] for one in taken):
            self._call.refuse("an inference tensor that is changed outside of inference mode")
        made = value if isinstance(value, tuple | list) else (value,)
        if any(isinstance(one, torch.Tensor) and one.requires_grad for one in made):
            self._call.refuse("an inference tensor in what needs a gradient")

    def _note_one(self, value: Any, given: list[Any]) -> None:  # noqa: ANN401
        address = value.untyped_storage().data_ptr()
        sharing = [one for one in given if address and one.untyped_storage().data_ptr() == address]
        known, node = self._call.inference_tensors, self._call.builder.node_of(value)
        is_made = any(id(one) in known for one in sharing) if sharing else bool(self._call.inference)
        if is_made:
            known.add(id(value))
            node.meta[MADE_IN_INFERENCE] = True
        elif self._call.inference:
            node.meta[VIEW_IN_INFERENCE] = True
