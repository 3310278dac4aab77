"""Functions with control flow, of a tensor and a number each.

TorchScript infers what they give.
"""

# ruff: noqa: ANN201
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[[Tensor, int], Any]


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, n: int):
        return self.function(x, n)


FUNCTIONS: dict[str, Function] = {}


def tried(function: Function) -> Function:
    FUNCTIONS[function.__name__] = function
    return function


@tried
def counted(x: Tensor, n: int):
    for i in range(n):
        x = x + i
    return x


@tried
def counted_down(x: Tensor, n: int):
    total = 0
    for i in range(3 * n, -2, -3):
        total += i * i
    return x * total, total


@tried
def nothing_done(x: Tensor, n: int):
    kept = n
    for _ in range(n):
        pass
    for _ in range(0):
        kept += 1
    return x, kept


@tried
def while_small(x: Tensor, n: int):
    rounds = 0
    while bool(x.sum() < 20 * n):
        x = x.abs() + 1
        rounds += 1
    return x, rounds


@tried
def swapped(x: Tensor, n: int):
    a, b, c = x, x + 1, "c"
    left, right = "left", "right"
    for _ in range(n):
        a, b = b, a
        left, right, c = c, left, right
    return a, b, left + right + c


@tried
def swapped_conditions(x: Tensor, n: int):
    going, other, rounds = True, False, 0
    while going:
        going, other = other, rounds < n
        rounds += 1
    return x, rounds, going, other


@tried
def left_early(x: Tensor, n: int):
    total = 0
    for place, row in enumerate(x.unbind(1)):
        if place == n:
            continue
        if bool(row.sum() > 4):
            break
        total += place + 1
    return total


@tried
def endless(x: Tensor, n: int):
    k = 0
    while True:
        k += 1
        if k > n:
            break
        if k % 2 == 1:
            continue
        n -= 1
    return x, k, n


@tried
def returned_from(x: Tensor, n: int) -> tuple[int, Tensor]:
    for i in range(5):
        for j in range(5):
            if i * j == n:
                return i * 10 + j, x
            if j > i:
                break
    return -1, x + 1


@tried
def within(x: Tensor, n: int):
    found: list[int] = []
    for i in range(2, 3 * n):
        if i % 3 == 0:
            j = i
            while j > 0:
                j -= 2
                if j in found:
                    break
                found.append(j)
        elif i % 3 == 1:
            for j in range(i):
                found.append(-j)  # noqa: PERF401 (TorchScript has no extend by a generator)
        else:
            continue
    return x, found


@tried
def maybe(x: Tensor, n: int):
    last: Tensor | None = None
    first: int | None = None
    for i in range(n):
        if last is not None:
            x = x + last
        if first is None:
            first = i * 2
        else:
            first += 1
        last = x
    return last, first


@tried
def asserted(x: Tensor, n: int):
    for i in range(n):
        if i > 100:
            raise ValueError("never")
        assert x.dim() == 2, f"{x.dim()} dimensions"
    if n > 100:
        raise RuntimeError("never")
    return x


def thousand(x: Tensor, n: int):
    for _ in range(1000):
        x = x + 1
    return x + n


def talking(x: Tensor, n: int):
    for i in range(n):
        print("round", i, [i])  # noqa: T201
    print()  # noqa: T201
    warnings.warn("careful")  # noqa: B028
    return x


@tried
def none_at_last(x: Tensor, n: int):
    """None in all ways: TorchScript finds no type for what it saves of that."""
    y = torch.jit.annotate(Tensor | None, None)
    k = 1
    if n <= 2:
        z = torch.jit.annotate(Tensor | None, None)
        k = 2
        if n > 1:
            z = torch.jit.annotate(Tensor | None, None)
            k = 3
        y = z
    return x * k if y is None else x + y


@tried
def none_unless_raised(x: Tensor, n: int):
    y, k = nothing_or_error(n)
    if y is not None:
        x = x + y
    return x + k


def nothing_or_error(n: int) -> tuple[Tensor | None, int]:
    """None in both branches that end well."""
    if n > 3:
        y: Tensor | None = None
        k = 3
    elif n > -1:
        y = None
        k = 4
    else:
        raise ValueError
    return y, k


def nothing(n: int) -> tuple[Tensor | None, int]:
    if n > 2:
        return None, 1
    return None, 2


@tried
def none_in_tuples(x: Tensor, n: int):
    y, k = nothing(n)
    if y is not None:
        x = x + y
    return x + k


@tried
def none_in_loops(x: Tensor, n: int):
    """``a`` is None in all rounds, because ``b`` is; ``c`` is not."""
    a = torch.jit.annotate(Tensor | None, None)
    b = torch.jit.annotate(int | None, None)
    c = torch.jit.annotate(Tensor | None, None)
    for i in range(n):
        if b is not None:
            a = x
        if a is not None:
            b = 3
        if c is not None:
            x = x + c
        if i > 1:
            c = x
    for one in (a, c):
        if one is not None:
            x = x + one
    return x
