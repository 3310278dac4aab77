"""Calls unlike the one that was captured: what is said of each, or nothing where it is right all the same.

A forward is captured with ``EXAMPLE``, or with the arguments of ``like``; then it is called as ``calls``
says. What it relies on stands in the line that ends in ``# here``. Here are arguments, aliases, state and
globals; ``effect_unlike_tensors`` has the tensors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

Model: TypeAlias = Any
RIGHT = ""


class Unlike(NamedTuple):
    """A forward, and calls of it.

    Attributes:
        forward: it.
        like: the arguments that it is captured with.
        calls: for each what is said (``RIGHT``: nothing), its arguments, those by name, and what is done to
            the module before it.
        attributes: of the module.
    """

    forward: Any
    like: tuple[Any, ...]
    calls: tuple[tuple[str, tuple[Any, ...], dict[str, Any], Callable[[Any], None] | None], ...]
    attributes: dict[str, Any]


UNLIKE: list[Unlike] = []


def tensor(*sizes: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    made = torch.arange(1, 1 + math.prod(sizes)).reshape(sizes).to(dtype)
    return made.requires_grad_() if grad else made


X = tensor(2, 3)
SIX = tensor(6, 3)


def call(said: str, *args: Any, before: Callable[[Any], None] | None = None, **named: Any) -> Any:  # noqa: ANN401
    """A call, and what is said of it."""
    return said, args, named, before


def unlike(*calls: Any, like: tuple[Any, ...] = (X,), **attributes: Any) -> Callable[[Any], Any]:  # noqa: ANN401
    """A forward, in a module with these attributes, that is called so."""

    def note(forward: Any) -> Any:  # noqa: ANN401
        UNLIKE.append(Unlike(forward, like, calls, attributes))
        return forward

    return note


def put(name: str, value: Any) -> Callable[[Any], None]:  # noqa: ANN401
    """Set an attribute."""
    return lambda module: setattr(module, name, value)


# --- arguments -------------------------------------------------------------------------------------


@unlike(
    call("expected mask is None, found a tensor", X, X),
    call("expected mask is None, found a tensor", X, mask=X),
    call(RIGHT, X, None),
)
def left_out(_: Model, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    return x if mask is None else x + mask  # here


@unlike(
    call("expected isinstance(mask, torch.Tensor), found NoneType", X, None),
    call("expected isinstance(mask, torch.Tensor), found NoneType", X),
    like=(X, X + 1),
)
def given_mask(_: Model, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    return x if mask is None else x + mask  # here


@unlike(call("expected scale == 2.0, found 3.0", X, 3.0), call(RIGHT, X, scale=2.0))
def default(_: Model, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return x * scale  # here


@unlike(call("expected scale == 2.0, found 3.0", X, scale=3.0), call(RIGHT, X, scale=2.0))
def by_name(_: Model, x: torch.Tensor, *, scale: float = 2.0) -> torch.Tensor:
    return x * scale  # here


@unlike(call(RIGHT, X, 3.0), call("expected type(scale) is float, found int", X, 3), like=(X, 2.0))
def number(_: Model, x: torch.Tensor, scale: float) -> torch.Tensor:
    return x * scale  # here


@unlike(call(RIGHT, X), call(RIGHT, X, 5), like=(X, 2))
def given_default(_: Model, x: torch.Tensor, n: int = 3) -> torch.Tensor:
    return x * n


@unlike(call(RIGHT, SIX), call("expected out[1] is True, found False", tensor(0, 3)))
def empty(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x * 2 if len(x) else x  # here


@unlike(call("expected n == 2, found 3", X, 3), call(RIGHT, X, 2), like=(X, 2))
def branch_on_number(_: Model, x: torch.Tensor, n: int) -> torch.Tensor:
    for _step in range(n):  # here
        x = x * 2
    return x


YES, NO = True, False


@unlike(call("expected flag is True, found False", X, NO), like=(X, YES))
def boolean(_: Model, x: torch.Tensor, flag: bool) -> torch.Tensor:  # noqa: FBT001
    return x * 2 if flag is True else x  # here


@unlike(call("expected mode == 'double', found 'half'", X, "half"), like=(X, "double"))
def string(_: Model, x: torch.Tensor, mode: str) -> torch.Tensor:
    return {"double": x * 2, "half": x / 2}[mode]  # here


@unlike(
    call("expected str(dtype) == 'torch.float64', found 'torch.int64'", X, torch.int64),
    like=(X, torch.float64),
)
def dtype_argument(_: Model, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype)  # here


@unlike(
    call("expected 'y' not in batch", {"x": X, "y": X}),
    call("expected isinstance(batch['x'], torch.Tensor), which cannot be told", {"z": X}),
    call(RIGHT, {"x": SIX, "z": None}),
    like=({"x": X},),
)
def dictionary(_: Model, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return batch["x"] + batch.get("y", 0)  # here


@unlike(call("expected tuple(batch) == ('x',), found ('x', 'y')", {"x": X, "y": X}), like=({"x": X},))
def dictionary_walked(_: Model, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return sum(batch.values())  # here


@unlike(call("expected len(items) == 2, found 3", [X, X, X]), call(RIGHT, [X, SIX[:2]]), like=([X, X + 1],))
def listed(_: Model, items: list[torch.Tensor]) -> torch.Tensor:
    return sum(items)  # here


@unlike(call("expected len(more) == 1, found 2", X, X, X), like=(X, X))
def starred(_: Model, x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
    return x + sum(more)  # here


@unlike(call(RIGHT, X, None), call(RIGHT, X, "anything"), call(RIGHT, X, 7), like=(X, X))
def never_read(_: Model, x: torch.Tensor, unused: Any) -> torch.Tensor:  # noqa: ANN401, ARG001
    return x * 2


# --- aliasing --------------------------------------------------------------------------------------


def both(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return value, value


@unlike(call("expected y is x", X, X + 1), like=both(X))
def same_twice(_: Model, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * 2 + y  # here


@unlike(
    call("expected apart(x, y)", *both(X.clone())), call(RIGHT, SIX.clone(), SIX + 1), like=(X.clone(), X + 1)
)
def changed_in_place(_: Model, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)  # here
    return x + y


@unlike(call("expected apart(second, first)", *([[X]] * 2)), like=([X], [X + 1]))
def changed_list(_: Model, first: list[torch.Tensor], second: list[torch.Tensor]) -> torch.Tensor:
    first[0] = first[0] * 2
    return first[0] + second[0]  # here


# --- state and globals between calls ---------------------------------------------------------------


@unlike(
    call(
        "expected self.training is True, found False",
        X,
        before=lambda module: setattr(module, "training", False),
    )
)
def training(self: Model, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.0, self.training)  # here


@unlike(call("expected self.scale == 2, found 3", X, before=put("scale", 3)), call(RIGHT, X), scale=2)
def attribute(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.scale  # here


@unlike(call("expected self.mode == 'a', found 'b'", X, before=put("mode", "b")), mode="a")
def attribute_text(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * 2 if self.mode == "a" else x  # here


@unlike(
    call(
        "expected str(self.kind) == 'torch.float64', found 'torch.float32'",
        X,
        before=put("kind", torch.float32),
    ),
    kind=torch.float64,
)
def attribute_dtype(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x.to(self.kind)  # here


@unlike(
    call("expected self.scales[1] == 2.0, found 5.0", X, before=put("scales", [1.0, 5.0])), scales=[1.0, 2.0]
)
def attribute_list(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.scales[1]  # here


@unlike(
    call("expected type(self.count) is int, found float", X, before=put("count", 0.5)),
    call(RIGHT, X),
    count=0,
)
def counter(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.count += 1  # here
    return x * self.count


@unlike(call("expected self.kept.dim() == 2, found 1", X, before=put("kept", tensor(3))), kept=X)
def rank_of_attribute(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.kept.dim()  # here


@unlike(call(RIGHT, X, before=put("kept", SIX[:2])), kept=X)
def attribute_tensor(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.kept
