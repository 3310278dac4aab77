"""Functions with control flow, of a tensor and a number each.

TorchScript infers what they give.
"""

# ruff: noqa: ANN201
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[[Tensor, int], Any]


# --- modules


class Failing(nn.Module):
    """Fails in the second round of a loop, each number in another way."""

    def forward(self, x: Tensor, n: int) -> Tensor:
        parts = [x]
        for i in range(3):
            if i == 1 and n == 9:
                raise ValueError(f"too many: {n}")
            weight = torch.ones(3, 3 if n == 1 or i == 0 else n)
            x = x @ weight
            if n == 4:
                while len(parts) < 3:
                    parts.append(torch.cat([x, weight[:, :2]]))
        return x


class Changing(nn.Module):
    """Changes what the module keeps, under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [1, 2]

    def forward(self, x: Tensor, n: int) -> Tensor:
        same = self.sizes
        for _ in range(n):
            same.append(n)
        return x + len(self.sizes)


class Copying(nn.Module):
    """Holds values of all types, and changes copies of its lists."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [1, 2]
        self.table = {"a": 1, "b": 2}
        self.parts = [torch.ones(2), torch.zeros(2)]
        self.named = {"ones": torch.ones(2)}
        self.mixed = (1, "it's\x01", torch.ones(2), [[0.5], [1.5, 2.0]])
        self.device = torch.device("cpu")
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.kept = nn.ParameterList([torch.ones(2)])

    def forward(self, x: Tensor, n: int):
        copy = list(self.sizes)
        longer = self.sizes + [n]  # noqa: RUF005 (TorchScript adds lists)
        for size in self.sizes:
            copy.append(size)
            longer[0] = size
        for layer in self.layers:
            x = layer(x)
        for part in self.parts:
            x = x + part
        for value in self.kept:
            x = (x * value + self.named["ones"]).to(self.device)
        return x, copy, longer, self.sizes, self.table, self.table["b"], self.mixed


class Seeding(nn.Module):
    """What cannot be written, in a loop and in branches."""

    def forward(self, x: Tensor | int, n: int) -> Tensor:
        y = torch.ones(2)
        for _ in range(n):
            torch.manual_seed(n)
        if n > 2:
            torch.manual_seed(2)
        return y + x if isinstance(x, int) else y


class Shadowing(nn.Module):
    """Parameters with names of operators and of generated values."""

    def forward(self, insane: bool, isolated: bool, r8: int) -> tuple[bool, bool, int]:  # noqa: FBT001
        rounds = 0
        for i in range(r8):
            if not insane and (isolated or i > 1):
                rounds += r8
        return not insane, insane is isolated or not isolated, rounds


class Doubled(nn.Module):
    """Numbers that a trace keeps as tensors."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2.5 + x.size(0) * 3.5


# --- functions of values

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


# --- control_flow


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, n: int):
        return self.function(x, n)


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
