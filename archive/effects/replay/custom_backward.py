"""A function's own ``backward``, inserted into what a graph has computed.

The graph leads from the function's arguments to its results through operations whose gradients mean nothing:
the gradient that flows back out of a result is noted, and the one that would flow on to an argument is
replaced by what ``backward`` returns. These objects live as long as the results' autograd graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archive.effects.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class BackwardContext:
    """The context that ``backward`` gets; effects set its attributes and save its tensors."""

    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    _saved: tuple[tuple[Any, int, bool], ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors, with their version counters."""
        self._saved = tuple((tensor, getattr(tensor, "_version", 0), False) for tensor in tensors)

    def let_go(self, results: Sequence[Any]) -> None:
        """Keep the function's own results without their autograd graph, which holds this context."""
        known = {id(result) for result in results}
        self._saved = tuple(
            (tensor.detach(), version, True) if id(tensor) in known else (tensor, version, is_result)
            for tensor, version, is_result in self._saved
        )

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors."""
        for tensor, version, is_result in self._saved:
            if getattr(tensor, "_version", 0) != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace "
                    f"operation: [{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; "
                    f"expected version {version} instead."
                )
            if is_result and torch.is_grad_enabled():
                raise RuntimeError("a second derivative by a saved result is not kept")
        return tuple(tensor for tensor, _, _ in self._saved)


def checked_context(value: Any) -> BackwardContext:
    """A value that is the context of an autograd function."""
    if type(value) is not BackwardContext:
        raise StateError(f"expected the context of an autograd function, found a {type(value).__name__}")
    return value


class _Like(NamedTuple):
    """Shape, type and device of a tensor."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: Any) -> _Like:
        return cls(tensor.shape, tensor.dtype, tensor.device)

    def zeros(self) -> torch.Tensor:
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)


class BackwardLink:
    """The ``backward`` of one call of a function.

    Args:
        results: of the function, with their autograd graph; None for anything but tensors.
        arguments: clones of the function's arguments, None for those without gradient.
    """

    def __init__(
        self,
        context: BackwardContext,
        function: type[Any],
        results: Sequence[Any],
        arguments: Sequence[Any],
    ) -> None:
        self._context, self._function = context, function
        self._results = [None if result is None else _Like.of(result) for result in results]
        self._arguments = [None if argument is None else _Like.of(argument) for argument in arguments]
        self._pass = -1
        self._given: dict[int, Any] = {}
        self._gradients: tuple[Any, ...] | None = None

    def noting(self, number: int) -> Callable[[Any], None]:
        """A hook that notes the gradient of a result."""

        def note(gradient: Any) -> None:
            self._enter()
            self._given[number] = gradient

        return note

    def replacing(self, number: int) -> Callable[[Any, Any], tuple[Any, ...]]:
        """A hook that returns the gradient of an argument."""

        def replaced(_: Any, __: Any) -> tuple[Any, ...]:
            self._enter()
            if self._gradients is None:
                self._gradients = self._backward()
            return (self._fitting(self._gradients[number], number),)

        return replaced

    def _enter(self) -> None:
        """Forget the gradients of an earlier backward pass."""
        now = torch._C._current_graph_task_id()
        if now != self._pass:
            self._pass, self._given, self._gradients = now, {}, None

    def _backward(self) -> tuple[Any, ...]:
        """The result of the function's ``backward``."""
        given = [
            self._given.get(number, like.zeros() if like and self._context.materialize_grads else None)
            for number, like in enumerate(self._results)
        ]
        result = self._function.backward(self._context, *given)
        gradients = result if isinstance(result, tuple) else (result,)
        count = len(self._arguments)
        if len(gradients) < count or any(gradient is not None for gradient in gradients[count:]):
            raise RuntimeError(
                f"function {self._function.__name__}Backward returned an incorrect number of gradients "
                f"(expected {count}, got {len(gradients)})"
            )
        return gradients

    def _fitting(self, gradient: Any, number: int) -> Any:
        """A gradient in the shape and type of its argument, as PyTorch makes it."""
        like = self._arguments[number]
        if gradient is None or like is None:
            return None
        if gradient.shape != like.shape:
            if torch.broadcast_shapes(gradient.shape, like.shape) != gradient.shape:
                raise RuntimeError(
                    f"Function {self._function.__name__}Backward returned an invalid gradient at index "
                    f"{number} - got {list(gradient.shape)} but expected shape compatible with "
                    f"{list(like.shape)}"
                )
            gradient = gradient.sum_to_size(like.shape)
        return gradient.to(like.dtype)


def set_backward(
    context: BackwardContext, function: type[Any], results: Sequence[Any], arguments: Sequence[Any]
) -> None:
    """Let a function's own ``backward`` give the gradients between some results and arguments."""
    link = BackwardLink(context, function, results, arguments)
    for number, result in enumerate(results):
        if result is not None and result.grad_fn is not None:
            result.register_hook(link.noting(number))
    for number, argument in enumerate(arguments):
        if argument is not None and argument.grad_fn is not None:
            argument.grad_fn.register_hook(link.replacing(number))
    context.let_go(results)
