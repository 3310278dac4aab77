"""A small scripted module for each part of TorchScript's language that models use besides tensors.

Annotations are objects here, as TorchScript does not read all of them from text.
"""

# ruff: noqa: FBT001 (TorchScript has no keyword-only arguments with defaults)

import enum
from collections import OrderedDict
from typing import Any, NamedTuple

import torch
from torch import nn

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
SEQUENCES = torch.arange(60.0).reshape(3, 5, 4) / 10
LENGTHS = torch.tensor([5, 2, 3])


@torch.jit.script
class Pair:
    """A class of TorchScript's."""

    def __init__(self, a: torch.Tensor, b: int) -> None:
        self.a = a
        self.b = b

    def total(self) -> torch.Tensor:
        """The sum."""
        return self.a + self.b


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


@torch.jit.interface
class Activation(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Tripled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


class ObjectMade(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pair = Pair(x, 3)
        return pair.total()


class ObjectOfABranch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pair = Pair(x, 1)
        if bool(x.sum() > 0):
            pair = Pair(x, 2)
        return pair.total()


class ObjectHeld(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(torch.ones(3), 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.pair.total()


class PackedSequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, _ = self.rnn(packed)
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0]


class NamedTuples(nn.Module):
    def forward(self, x: torch.Tensor) -> Point:
        points = [Point(x, x * 2), Point(x + 1, x)]
        return Point(points[1].x, points[0].y)


class OptionalNamedTuple(nn.Module):
    def forward(self, x: torch.Tensor, point: Point | None = None) -> torch.Tensor:
        return x if point is None else x + point.x


class Enums(nn.Module):
    def forward(self, x: torch.Tensor, flag: bool) -> torch.Tensor:
        colour = Colour.RED if flag else Colour.GREEN
        return x + colour.value


class Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = {"a": 1.5, "b": 2.0}
        self.shifts = [torch.ones(3), torch.zeros(3)]

    def forward(self, x: torch.Tensor, key: str) -> torch.Tensor:
        return x * self.scales[key] + self.shifts[len(key) - 1]


class DictsOfPairs(nn.Module):
    def forward(
        self, x: torch.Tensor, r1_pair: int
    ) -> tuple[
        dict[str, torch.Tensor], dict[int, tuple[int, torch.Tensor]], dict[float, torch.Tensor | None]
    ]:
        texts = OrderedDict([(str(place % 2), row + r1_pair) for place, row in enumerate([x, x * 2, x * 3])])
        numbers = OrderedDict([(place, (place, x + place)) for place in range(r1_pair)])
        pairs: list[tuple[float, torch.Tensor | None]] = []
        if r1_pair > 1:
            pairs.append((0.5, None))
        return texts, numbers, OrderedDict(pairs)


class State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x.sum(0)
        self.calls += 1
        return x + self.total / self.calls


class ListInPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.jit.Attribute([], list[torch.Tensor])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x)
        return torch.stack(self.seen).sum()


class Unread(nn.Module):
    """Writes an attribute for others to read, which nobody can on a lowered module."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x.detach()
        return x


class Optionals(nn.Module):
    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, n: int | None = None
    ) -> torch.Tensor:
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        return x if n is None else x + n


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Tripled(), Tripled()])

    def forward(self, x: torch.Tensor, place: int) -> torch.Tensor:
        part: Activation = self.parts[place]
        return part.forward(x)


class Forked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Tripled()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        futures = [torch.jit.fork(self.part, x + n) for n in range(2)]
        y = torch.jit.wait(torch.jit.fork(doubled, x))
        return y + torch.jit.wait(futures[0]) - torch.jit.wait(futures[1])


class Ignored(nn.Module):
    @torch.jit.ignore
    def python(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.python(x) * 2


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.debug = False

    @torch.jit.unused
    def python(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.python(x) if self.debug else x * 2


class Texts(nn.Module):
    def forward(self, x: torch.Tensor, said: str) -> tuple[torch.Tensor, str]:
        words = said.upper().strip().replace("A", "b").split(":")
        made = "-".join(sorted(words)) + "%d %s" % (len(words), said) + f"{len(said)}" + said[::-1]  # noqa: UP031
        return x + int("12") + ord("a") + said.find(":"), made


class Unions(nn.Module):
    def forward(self, x: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
        if isinstance(x, list):
            return torch.stack(x)
        return x


class Anything(nn.Module):
    def forward(self, x: Any) -> torch.Tensor:  # noqa: ANN401
        if isinstance(x, torch.Tensor):
            return x
        return torch.zeros(1)


class WithoutGradients(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        return y + x


class Recorded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.profiler.record_function("part"):
            y = x * 2
        return y + x


class Part(NamedTuple):
    """A part of the language.

    Attributes:
        words: what docs/reference/lowered.md calls it.
        model: a module that uses it.
        arguments: of a call.
        refused: a part of the line with which lowering refuses it; "" if it does not.
    """

    words: str
    model: type[nn.Module]
    arguments: tuple[Any, ...]
    refused: str = ""


PARTS = [
    Part("state: attributes that methods write and read, also `+=` of buffers", State, (X,)),
    Part("an attribute that is written and never read", Unread, (X,), "self.last = x.detach()"),
    Part("a list or dict attribute that is changed in place", ListInPlace, (X,), "self.seen.append(x)"),
    Part("attributes that are lists and dicts", Tables, (X, "b")),
    Part("`OrderedDict` of a list of pairs", DictsOfPairs, (X, 2)),
    Part("`Optional` arguments", Optionals, (X, None, 2)),
    Part("named tuples, also as results", NamedTuples, (X,)),
    Part("an `Optional` named tuple as argument", OptionalNamedTuple, (X,)),
    Part("packed sequences", PackedSequences, (SEQUENCES, LENGTHS)),
    Part("objects of `@torch.jit.script` classes, made in `forward`", ObjectMade, (X,)),
    Part("such an object as attribute", ObjectHeld, (X,)),
    Part("such an object that a branch chooses", ObjectOfABranch, (X,), "Pair(x, 1)"),
    Part("texts: methods, slices, formats", Texts, (X, "a:b")),
    Part("`torch.jit.fork` and `wait`: run at once", Forked, (X,)),
    Part("`@torch.jit.unused`, where it is not called", Unused, (X,)),
    Part("`@torch.jit.ignore`: PyTorch saves no Python", Ignored, (X,), "return self.python(x) * 2"),
    Part("`with torch.no_grad()`", WithoutGradients, (X,)),
    Part("other contexts", Recorded, (X,), 'record_function("part")'),
    Part("enums", Enums, (X, True), "Colour.RED if flag else Colour.GREEN"),
    Part(
        "a module chosen by a number that is not known (`@torch.jit.interface`)",
        Chosen,
        (X, 1),
        "part.forward(x)",
    ),
    Part("`isinstance` of arguments of several types", Unions, ([X, X],), "if isinstance(x, list)"),
    Part("arguments of type `Any`", Anything, (X,), "if isinstance(x, torch.Tensor)"),
]
