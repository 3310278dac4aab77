"""Numbers that calls write: ints, floats and bools, and what Python computes with them."""

from __future__ import annotations

import math
from typing import Any

import torch

from tests.effects.effect_cases import OURS, Cases, Model

CASES = Cases("unspec")


@CASES.add(n=1, average=0.5)
def builtin_max_min(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.average = max(self.average, self.n * 0.4)
    return x + max(self.n, 3) + min(self.average, 1.0)


@CASES.add(n=3)
def unspec_float_precision(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.third = 1 / self.n
    return x * self.third


@CASES.add(total=0.0)
def no_recompilations(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.total += 0.1
    return x * self.total


@CASES.add("misc", n=2)
def float_speculation_log_divergence(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n = self.n * 1.5
    return x + self.n


@CASES.add("misc", n=0)
def numel(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += x.numel()
    return x + self.n


@CASES.add(OURS, n=0, rate=0.1)
def constant_arithmetic(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.rate = -abs(self.rate) * self.n // 1 + 0.5
    return x * self.rate


@CASES.add(OURS, n=1)
def int_power(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x * self.n**2


@CASES.add(OURS, n=0)
def int_power_of_a_counter(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x * 2**self.n


@CASES.add(OURS, n=0)
def float_power(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x * (1 - 0.9**self.n)


@CASES.add(OURS, t=0.0)
def float_remainder(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.t = (self.t + 0.7) % 1.0
    return x * self.t


@CASES.add(OURS, t=0.0)
def float_remainder_of_negatives(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.t = (self.t - 0.7) % 1.3
    return x * self.t


@CASES.add(OURS, n=0)
def int_remainder(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n = (self.n - 5) % 7
    return x + self.n


@CASES.add(OURS, n=0)
def exponential_decay(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x * math.exp(-self.n / 10)


@CASES.add(OURS, n=0)
def cosine_schedule(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.rate = 0.5 * (1 + math.cos(math.pi * self.n / 100))
    return x * self.rate


@CASES.add(OURS, n=0)
def square_root(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x / math.sqrt(self.n)


@CASES.add(
    OURS,
    says="a conversion: the number it depends on differs from call to call; 8 tables are not enough",
    n=0,
)
def logarithm(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x * math.log(self.n + 1) + math.log2(self.n) + math.log10(self.n)  # here


@CASES.add(OURS, n=0.3)
def floor_and_ceil(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 0.7
    self.low, self.high = math.floor(self.n), math.ceil(self.n)
    return x + self.low - self.high


@CASES.add(OURS, on=False)
def toggle(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.on = not self.on
    return x + self.on


@CASES.add(OURS, n=0, late=False)
def comparison_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.late = self.n >= 2
    return x * self.n


@CASES.add(OURS, n=0, late=False, early=True)
def bools_combined(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.late = (self.n > 1) & self.early
    self.early = self.early ^ self.late
    return x + self.n


@CASES.add(OURS, n=1)
def int_becomes_float(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n = self.n / 2
    return x * self.n


@CASES.add(
    OURS,
    says=(
        "call 1: forward: this call is not as the one that was captured: "
        "expected -2**61 <= self.n <= 2**61, found 4611686018427387904"
    ),
    n=2**61,
)
def beyond_64_bits(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n = self.n * 2  # here
    return x + 1


@CASES.add(OURS, n=0)
def conversions(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.real, self.whole = float(self.n), int(self.n * 1.5)
    return x * self.real + self.whole


@CASES.add(OURS, n=0.5)
def rounded(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1.25
    self.whole = round(self.n)
    return x + self.whole


@CASES.add(OURS, n=7)
def divmod_of_a_counter(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 5
    self.quotient, self.rest = divmod(self.n, 4)
    return x * self.quotient + self.rest


@CASES.add(OURS, n=1)
def shifts(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n = (self.n << 1) | 1
    return x + (self.n >> 1)


@CASES.add(OURS, n=0, seen=[])
def numbers_in_a_history(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.seen.append(self.n)
    self.seen.append(self.n * 0.5)
    return x * self.n


@CASES.add(OURS, best=math.inf)
def best_so_far(self: Model, x: torch.Tensor) -> Any:
    self.best = min(self.best, float(x.sum()))
    return x + self.best


@CASES.add(
    OURS,
    says="a text: the number it depends on differs from call to call; 8 tables are not enough",
    n=0,
    text="",
)
def text_of_a_counter(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    self.text = f"call {self.n}"  # here
    return x * self.n


@CASES.add(OURS, step=0, chosen=[])
def largest_of_two_types(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.step = (self.step * 3 + 2) % 7
    self.chosen = [max(self.step, 2.5), min(self.step, 2.5), max(4.0, self.step), min(self.step, 3)]
    return x * self.chosen[0]
