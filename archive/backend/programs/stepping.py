"""Runs an exported program node by node, in its inner graphs too, where it is known which of them runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.fx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COND, WHILE = "cond", "while_loop"


class Stepper(torch.fx.Interpreter):  # type: ignore[misc]  # PyTorch has no types of it
    """Gives each node that calls an operator to ``step``, which runs it by :meth:`result`.

    Args:
        step: (stepper, node, key of the node as ``archive.reader.lookups.nodes`` has it) → the node's result.
            What PyTorch adds to write a buffer has the key of the node that made its value.
        scope: what keys begin with.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        step: Callable[[Stepper, torch.fx.Node, str], Any],
        scope: str = "",
    ) -> None:
        super().__init__(module)
        self._step, self._scope = step, scope

    def run_node(self, n: torch.fx.Node) -> Any:  # noqa: ANN401 (any value)
        """Run a node."""
        target: Any = n.target
        if n.op != "call_function" or not isinstance(
            target, torch._ops.OpOverload | torch._ops.HigherOrderOperator
        ):
            return self.result(n)
        if isinstance(target, torch._ops.HigherOrderOperator) and target.name() in {COND, WHILE}:
            return self._followed(n, target.name())
        return self._step(self, n, self._scope + _written(n).name)

    def result(self, n: torch.fx.Node) -> Any:  # noqa: ANN401 (any value)
        """What a node returns."""
        return super().run_node(n)

    def _followed(self, n: torch.fx.Node, name: str) -> Any:  # noqa: ANN401 (any value)
        """Run a node that calls inner graphs by its arguments."""
        args, _ = self.fetch_args_kwargs_from_env(n)
        if name == COND:
            return self._inner(n, 1 if args[0] else 2, args[3])
        carried, more = tuple(args[2]), tuple(args[3])
        while self._inner(n, 0, (*carried, *more)):
            carried = tuple(self._inner(n, 1, (*carried, *more)))
        return carried

    def _inner(self, n: torch.fx.Node, which: int, given: Sequence[object]) -> Any:  # noqa: ANN401 (any value)
        """Run an inner graph of a node."""
        graph: Any = n.args[which]
        scope = f"{self._scope}{n.name}.{graph.target}/"
        return Stepper(self.fetch_attr(graph.target), self._step, scope).run(*given)


def _written(n: torch.fx.Node) -> torch.fx.Node:
    """The node whose result a node writes to a buffer, if PyTorch added it for that; else the node itself."""
    is_added = n.target is torch.ops.aten.copy_.default and not n.meta
    value = n.args[1] if is_added else n
    return value if isinstance(value, torch.fx.Node) else n
