"""Functions of lists, dicts, texts, numbers, tensors and tuples, of a tensor and a number each.

TorchScript infers what they give.
"""

# ruff: noqa: ANN201
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[[Tensor, int], Any]


FUNCTIONS: dict[str, Function] = {}


def tried(function: Function) -> Function:
    FUNCTIONS[function.__name__] = function
    return function


@tried
def exchanged_lists(x: Tensor, n: int):
    a, b = [n], [5, n]  # empty, PyTorch itself would take it for a constant when it runs the model again
    for i in range(n):
        a, b = b, a
        a.append(i)
    return x, a, b, len(a), len(b)


@tried
def same_list(x: Tensor, n: int):
    a = [1, 2]
    b = a
    held = (a, 3)
    nested = [a]
    for i in range(n):
        held[0].append(i)
        if i == 1:
            nested[0][0] = 9
    return x, a, b, len(a), a[0], sum(b)


@tried
def copied_list(x: Tensor, n: int):
    a = [1, 2]
    b, c = list(a), a + [n]  # noqa: RUF005
    d = a.copy()
    b.append(n)
    c[0] = 7
    d.clear()
    return x, a, b, c, d, len(a)


@tried
def all_of_lists(x: Tensor, n: int):
    a = [3, 1, n]
    a.append(7)
    a.extend([9, 8])
    a.insert(1, 5)
    a.reverse()
    taken = a.pop(), a.pop(0)
    a.remove(9)
    a[0] = 11
    a += [1]
    a.sort()
    del a[0]
    parts = a[1:3] + a[::-1] + a[-2:] + [0] * n
    return x, a, taken, parts, sorted(a), a.index(11), a.count(1), max(a), min(a), n in a, [i * 2 for i in a]


@tried
def all_of_dicts(x: Tensor, n: int):
    d = {"a": x, "b": x + 1}
    d["c"] = x * n
    del d["a"]
    total = x
    for key, value in d.items():
        total = total + value * len(key)
    d.update({"z": total})
    taken = d.pop("b")
    kept = d.setdefault("q", taken)
    numbers = {i: i * i for i in range(n)}
    last = 0
    for i in numbers:  # noqa: PLC0206 (this is what is tried)
        last += numbers[i]
    numbers.clear()
    return d, kept, list(d.keys()), list(d.values()), d.get("no"), d.get("z", x), "z" in d, last, len(numbers)


@tried
def lists_in_a_dict(x: Tensor, n: int):
    d: dict[str, list[Tensor]] = {}
    for i in range(n):
        key = "even" if i % 2 == 0 else "odd"
        if key not in d:
            d[key] = []
        d[key].append(x * i)
    return {key: torch.stack(value).sum(0) for key, value in d.items()}


@tried
def texts(x: Tensor, n: int):
    s = "héllo\n\x07 'wörld' \u2028\x00" + str(n)
    t = "{} is {}, ".format(s, n) + "%s-%d" % (s, n) + f"{s}!" + "%d" % n  # noqa: UP031, UP032
    for c in s:
        t = t + c.upper()
    joined = ",".join(["a", s])  # noqa: FLY002
    parts = t[1:3], s[-1], s.split(" "), joined, s.replace("l", "L"), s.startswith("h")
    return x, t, parts, len(s), s == "x", ord("a"), chr(98), int("12"), float("2.5"), s.find("o"), "l" in s


@tried
def numbers(x: Tensor, n: int):
    f, k = float(x.sum()) + 0.25, n + 1
    whole = (
        k // 2,
        -k // 2,
        k % 3,
        -k % 3,
        abs(-k),
        min(k, 3),
        max(k, 3, 1),
        k & 3,
        k | 8,
        k ^ 1,
        k << 2,
        k >> 1,
    )
    parts = k / 2, f // 2, f % 2, f**2, abs(f), min(f, 2.0), round(f), int(f), float(k), f * k, k - f
    known = (
        math.floor(f),
        math.ceil(f),
        math.sqrt(abs(f)),
        math.exp(0.5),
        math.cos(f),
        math.pow(f, 2),
        math.pi,
    )
    more = math.gcd(k, 6), math.isnan(f), math.inf, -0.0, 1e-30, 10**18, complex(k, 2.0) * 2j, math.fabs(f)
    return whole, parts, known, more, not n, n == 2, bool(n), n < f


@tried
def tensors(x: Tensor, n: int):
    y = x.clone()
    y[0] = 1.0
    y[:, 1] = x[:, 0]
    y[y > 2] = 0.0
    y += n
    listed: list[float] = y[0].tolist()
    pairs = y[..., ::2], y[:, None, 0], y[-1, 1:], y[torch.tensor([1, 0])], y[y > 0], y.T
    made = torch.tensor(n), torch.tensor(2.5), torch.zeros(n), torch.arange(0, n, 2), torch.full([2], 3.0)
    return y, listed, pairs, made, y.shape[0], y.dtype == x.dtype, y.device == x.device, y.sum().item()


@tried
def tuples(x: Tensor, n: int):
    held = (1, x, "a", [n])
    a, _, c, d = held
    return held[1:3], held[:-1] + (a,), held[-1], len(held), c, d  # noqa: RUF005 (TorchScript adds tuples)
