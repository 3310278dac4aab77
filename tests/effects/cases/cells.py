"""Variables of functions around: ``nonlocal`` numbers and tensors; what functions made in a call share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tests.effects.effect_cases import Cases, Model, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CASES = Cases("misc")


class Closing(torch.nn.Module):
    """A module that has functions with variables of their own."""

    steps: Any

    def __init__(self) -> None:
        super().__init__()
        self.steps = self.made()

    def made(self) -> Any:
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> Any:
        return self.steps(x)


@CASES.add()
class nested_closure_mutation(Closing):
    def made(self) -> Any:
        one, other = tensor(1), tensor(2)

        def step(x: torch.Tensor) -> torch.Tensor:
            nonlocal one, other
            one = one + 1
            other = other + x
            return one + other

        return step


@CASES.add()
class write_to_closures_in_inlining(Closing):
    def made(self) -> Any:
        state = tensor(1)

        def counted() -> torch.Tensor:
            nonlocal state
            state = state + 1
            return state

        return lambda x: counted() + counted() * x


@CASES.add()
class closure_out_of_scope_cell(Closing):
    def made(self) -> Any:
        number, held = 0.25, tensor(1)

        def direct(x: torch.Tensor) -> Any:
            def inner() -> Any:
                return number + 1, held + x

            return inner()

        return direct


@CASES.add()
class closure_out_of_scope_cell_with_mutation(Closing):
    def made(self) -> Any:
        number, held = 0.25, tensor(1)

        def direct(x: torch.Tensor) -> Any:
            def inner() -> Any:
                nonlocal number, held
                before = held + 1
                number += 1
                held = held + 10
                return number, held, before + held + x

            return inner()

        return direct


@CASES.add()
class closure_write_across_functions(Closing):
    def made(self) -> Any:
        z = 1
        k = 2

        def create() -> Any:
            def update(x: torch.Tensor) -> torch.Tensor:
                nonlocal k
                k = k + 3
                return x * k

            return update

        update = create()

        def step(x: torch.Tensor) -> Any:
            nonlocal z
            z += k
            return update(x) + z, k

        return step


@CASES.add("sets")
class isdisjoint_with_generator(Closing):
    def made(self) -> Any:
        n = 0

        def numbers() -> Iterator[int]:
            nonlocal n
            n += 1
            yield 1
            n += 2
            yield 2
            n += 3
            yield 3

        def step(x: torch.Tensor) -> Any:
            return {2, 4, 5}.isdisjoint(numbers()), x + n

        return step


@CASES.add("functions")
def funcdef_closure(_: Model, x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    offset = 3.0

    def inner(y: torch.Tensor) -> torch.Tensor:
        nonlocal offset
        offset += 4.0
        return x + y + offset

    return inner(x) + inner(x)


@CASES.add("functions")
def inner_function(_: Model, x: torch.Tensor) -> torch.Tensor:
    def add_items(*items: torch.Tensor) -> torch.Tensor:
        return sum(items[1:], items[0])

    return add_items(x, x * 2, x + 3)


@CASES.add()
def nested_closure(self: Model, x: torch.Tensor) -> Any:
    def outer(*args: int, **kwargs: int) -> Callable[[], torch.Tensor]:
        both = x + args[0] + kwargs["b"]

        def middle(more: float = 0.5) -> Callable[[], torch.Tensor]:
            return lambda: both + more + 1

        return middle()

    self.last = outer(1, b=2)()
    return self.last


@CASES.add("misc", total=[0.0])
def write_to_cells_with_name_shadowing(self: Model, x: torch.Tensor) -> Any:
    y = x

    def make(z: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        x = z

        def inner(step: torch.Tensor) -> torch.Tensor:
            nonlocal x, y
            x = x * 2
            y = y + step
            return x + y

        return inner

    inner = make(x + 1)
    first = inner(x)
    self.total[0] += 1.0
    return first, inner(x), y
