"""Calls unlike the one that was captured: what is said of each, or nothing where it is right all the same.

A forward is captured with ``EXAMPLE``, or with the arguments of ``like``; then it is called as ``calls``
says. What it relies on stands in the line that ends in ``# here``. First arguments, aliases, state and
globals; then tensors of other sizes, types, devices and gradients.
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


@unlike(call(RIGHT, SIX), call("expected x.size(0) != 0, found False", tensor(0, 3)))
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
    call("expected isinstance(batch['x'], torch.Tensor), which is unknown", {"z": X}),
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


@unlike(call(RIGHT, SIX), call(RIGHT, tensor(1, 5)), call(RIGHT, tensor(7)))
def size(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x.sum() / x.size(0)


@unlike(call(RIGHT, SIX), call(RIGHT, tensor(1, 5)), call("expected x.dim() == 2, found 1", tensor(3)))
def unpacked(_: Model, x: torch.Tensor) -> torch.Tensor:
    b, c = x.shape  # here
    return x.view(b * c, -1) + b


@unlike(call(RIGHT, SIX), call("expected x.dim() == 2, found 3", tensor(2, 3, 1)))
def length(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x * len(x)  # here


@unlike(call(RIGHT, SIX), call(RIGHT, tensor(2, 2, 2)), seen=0)
def elements(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen += x.numel()
    return x / x.numel()


@unlike(call(RIGHT, SIX), call("expected x.dim() == 2, found 1", tensor(3)), count=0)
def kept_shape(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.count += x.size(0)
    self.sizes = x.shape  # here
    return x.new_zeros(x.shape) + torch.ones(x.size(0), x.size(1)) + torch.zeros(x.size())


@unlike(call(RIGHT, SIX), call(RIGHT, tensor(2, 4)))
def rooted(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x / math.sqrt(x.size(-1)) * float(x.size(0)) * x.shape[1] ** 0.5


@unlike(call(RIGHT, SIX), call("expected x.size(0) > 1, found False", tensor(1, 3)))
def branch_on_size(_: Model, x: torch.Tensor) -> torch.Tensor:
    if x.size(0) > 1:  # here
        return x * 2
    return x


@unlike(call("expected x.size(0) == 2, found 6", SIX))
def loop_on_size(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x[0]
    for row in range(x.size(0)):  # here
        y = y + x[row]
    return y


@unlike(call("expected out[1] == 2, found 6", SIX), call(RIGHT, tensor(2, 5)))
def loop_on_rows(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(())
    for row in x:  # here
        y = y + row.sum()
    return y


@unlike(call("expected out[1] == 1, found 3", SIX), call(RIGHT, tensor(1, 3)))
def parts(_: Model, x: torch.Tensor) -> torch.Tensor:
    return sum(part.sum() for part in x.split(2))  # here


@unlike(call("expected x.size(0) == 2, found 6", SIX))
def text_of_size(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.text = f"{x.size(0)} rows"  # here
    return x


@unlike(call("expected x.size(0) == 2, found 6", SIX), seen={})
def key_of_size(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen[x.size(0)] = x  # here
    return x


@unlike(call(RIGHT, SIX), eye=torch.eye(3))
def same_shape(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x @ self.eye
    return y * 2 if y.shape[1] == 3 else y  # here


@unlike(call("expected out[1] == 2, found 1", tensor(1, 3)), call(RIGHT, SIX))
def squeezed(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.squeeze()
    return y * y.dim()  # here


@unlike(call("expected x.dim() == 2, found 3", tensor(2, 3, 4)))
def rank(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x * x.dim()  # here


@unlike(call(RIGHT, SIX), call("expected x.dim() == 2, found 1", tensor(3)), history=[])
def mean_of_rows(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x.sum(0) / x.shape[0])  # here
    return x


@unlike(call(RIGHT, SIX), call(RIGHT, tensor(3, 2)))
def reshaped(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, x.size(-1)).expand(x.size(0), -1) + torch.arange(x.size(1))


@unlike(
    call("expected x.dtype == torch.float32, found torch.float64", X.double()),
    call("expected x.dtype == torch.float32, found torch.int64", X.long()),
)
def branch_on_dtype(_: Model, x: torch.Tensor) -> torch.Tensor:
    if x.dtype == torch.float32:  # here
        return x * 2
    return x


@unlike(call("expected x.dtype == torch.float32, found torch.float64", X.double()))
def dtype_of_result(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y + torch.ones(3, dtype=y.dtype)  # here


@unlike(call(RIGHT, X.double()), call(RIGHT, X.long()), call(RIGHT, tensor(3, 2).T), kept=X)
def itself_or_another(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.kept = x.float()
    return x.to(self.kept).contiguous().view(-1)


@unlike(call(RIGHT, X.double()), call(RIGHT, X.long()))
def any_dtype(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x * 2


@unlike(call(RIGHT, X.double()), call("expected x.is_floating_point(), found int", X.long()), total=0.0)
def item(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.total = x.sum().item()  # here
    return x


@unlike(call("expected x.requires_grad is False, found True", tensor(2, 3, grad=True)))
def branch_on_gradient(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.requires_grad else x  # here


@unlike(call("expected x.requires_grad is False, found True", tensor(2, 3, grad=True)))
def no_gradient(_: Model, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x * 2  # here


@unlike(call("expected str(x.device) == 'cpu', found meta", X.to("meta")))
def device(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(3, device=x.device)  # here


@unlike(call("expected isinstance(x, torch.Tensor), found tensor torch.sparse_coo", X.to_sparse()))
def layout(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x * 2  # here


@unlike(call("expected x.stride() == (3, 1), found (1, 2)", tensor(3, 2).T))
def contiguous(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x if x.is_contiguous() else x * 2  # here
