"""Calls with tensors unlike those of the captured call: other sizes, types, devices and gradients."""

from __future__ import annotations

import math

import torch

from tests.support.effect_unlike import RIGHT, SIX, Model, X, call, tensor, unlike


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


@unlike(call(RIGHT, SIX), call("expected out[1] is True, found False", tensor(1, 3)))
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
