"""Full backward hooks of modules, put on aliases that a graph has in the place of PyTorch's own function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.hooks import BackwardHook

from archive.effects.errors import StateError
from archive.effects.looking import checked_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    Items = tuple[Any, ...]


class GraphHook(BackwardHook):  # type: ignore[misc]
    """The backward hooks of one call of a module, on the nodes that made its aliases, not on new ones."""

    def _apply_on_tensors(self, fn: Callable[[Any], None], args: Items) -> tuple[Items, list[int] | None]:
        places = [place for place, one in enumerate(args) if one is not None]
        for place in places:
            node = checked_tensor(args[place]).grad_fn
            if node is None:
                raise StateError("a backward hook of a module whose tensor requires no gradient")
            fn(node)
        return args, places or None


def put_on_backward_hooks(
    module: object,
    hooks: tuple[Items, Items],
    tensors: tuple[Items, Items],
) -> None:
    """Put on the backward hooks of one call of a module.

    Args:
        module: that the hooks are called with.
        hooks: those called with both gradients, and those called before with the result's.
        tensors: aliases of the arguments and of the items of the result; None in the place of all others.

    Raises:
        StateError: an alias requires no gradient.
    """
    inputs, outputs = tensors
    joined = GraphHook(module, list(hooks[0]), list(hooks[1]))
    joined.setup_input_hook(inputs)
    joined.setup_output_hook(outputs)


def forget() -> None:
    """Undo nothing: the aliases are the graph's, and nobody gets them from a call that fails."""
