"""Calls of PyTorch's operators, right and wrong ones, to learn what each prints when it fails.

Right calls come from PyTorch's own samples (`op_db`), from :data:`BY_HAND`, and from the schemas, by chance.
Wrong ones are right ones in which one argument or two are exchanged: another shape, type, device, number.
"""

from __future__ import annotations

import math
import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

F32, I64 = torch.float32, torch.int64
DTYPES = (torch.int64, torch.float64, torch.float16, torch.bool, torch.complex64, torch.uint8, torch.bfloat16)
SHAPES = ((3, 3), (3,), (2, 3, 4, 4), (2, 3, 4), (1, 2, 4, 4, 4), ())
INTS = (-50, -7, -1, 0, 1, 2, 3, 7, 50, 1 << 40)
FLOATS = (-1.0, 0.0, 0.5, 2.0, math.nan, math.inf)
SAMPLES, RIGHT, TRIES, PAIRS, WILD = 6, 10, 60, 100, 40


# Hardly ever named by a model's code: inner operators, special functions, other devices, other names.
RARE = re.compile(
    r"_(?!softmax$|log_softmax$|convolution|weight_norm$|pa|_)|.*_(backward|copy|scatter|overrideable|functional)$"
    r"|(mkldnn|cudnn|miopen|quantized|fbgemm|mps|special|linalg|fft|sym|is|q|fake|fused|slow|arc|nested|lu|ldl)_"
    r"|arc|.*(sparse|cs[rc]|bs[rc]|padded|batch_norm_|indices|autocast|owner|vulkan|storage|dropout_|conj|cholesky)"
    r"|.*_(cachemask|stats|forward|jvp|dim_consecutive)$"
    r"|(is|r?strip|lstrip|lower|upper|title|swapcase|[lrz]just|r?partition|r?find|r?index$|splitlines|capitalize)"
    r"|(startswith|endswith|expandtabs|center|zfill|ljust|chr|ord|oct|hex|bin|deg2rad|rad2deg|degrees|radians)$"
    r"|(lcm|gcd|igamma|i0|hypot|ldexp|lgamma|mvlgamma|digamma|polygamma|nextafter|heaviside|erfinv|xlogy)"
    r"|(backward|data|grad|get_gradients|to_here|local_value|cuda|pin_memory|record_stream|lift|set$|set_)"
)
IN_PLACE = {
    *("add_", "sub_", "mul_", "div_", "relu_", "relu6_", "copy_", "fill_", "zero_", "clamp_", "masked_fill_"),
    *(
        "index_put_",
        "unsqueeze_",
        "squeeze_",
        "transpose_",
        "t_",
        "sigmoid_",
        "tanh_",
        "hardtanh_",
        "hardswish_",
    ),
    *(
        "hardsigmoid_",
        "silu_",
        "leaky_relu_",
        "elu_",
        "index_add_",
        "index_copy_",
        "scatter_",
        "scatter_add_",
    ),
    *("exp_", "sqrt_", "pow_", "clamp_min_", "clamp_max_", "bitwise_and_", "__iand__", "__ior__", "__ixor__"),
}


class Call(NamedTuple):
    """Arguments of an operator."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def made(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    """A tensor of small numbers."""
    return torch.rand(shape).mul(3).to(dtype)


def _lstm(count: int, states: int) -> Call:
    x, state = made(5, 2, 3), [made(1, 2, 4) for _ in range(states)]
    weights = [made(4 * count, 3), made(4 * count, 4), made(4 * count), made(4 * count)]
    return Call((x, state if states > 1 else state[0], weights, True, 1, 0.0, False, False, False), {})


def _cell(count: int, states: int) -> Call:
    state = [made(2, 4) for _ in range(states)]
    weights = (made(4 * count, 3), made(4 * count, 4), made(4 * count), made(4 * count))
    return Call((made(2, 3), state if states > 1 else state[0], *weights), {})


def _norm(rank: int) -> Call:
    channels = [made(3) for _ in range(4)]
    return Call((made(2, 3, *[4] * rank), *channels, True, 0.1, 1e-5, False), {})


def _conv(rank: int) -> tuple[Call, ...]:
    x, w, b = made(2, 4, *[6] * rank), made(4, 2, *[3] * rank), made(4)
    one, zero = [1] * rank, [0] * rank
    return (
        Call((x, w, b, one, zero, one, 2), {}),
        Call((x, made(4, 4, *[3] * rank), b, one, zero, one, 1), {}),
        Call((x[0], made(4, 4, *[3] * rank), None, one, zero, one, 1), {}),
    )


def _transposed(rank: int) -> Call:
    one, zero = [1] * rank, [0] * rank
    return Call((made(2, 4, *[6] * rank), made(4, 3, *[3] * rank), made(3), one, zero, zero, 1, one), {})


def _convolution(*, transposed: bool) -> Iterator[Call]:
    for rank in (1, 2, 3):
        one, zero = [1] * rank, [0] * rank
        bare = (
            made(2, 4, *[6] * rank),
            made(4, 4, *[3] * rank),
            made(4),
            one,
            zero,
            one,
            transposed,
            zero,
            1,
        )
        yield Call(bare, {})
        yield Call((*bare, False, False, True, True), {})


def _resized(rank: int, *options: float) -> Call:
    return Call((made(2, 3, *[4] * rank), [8] * rank, *options), {})


BY_HAND: dict[str, tuple[Call, ...]] = {
    "conv1d": _conv(1),
    "conv2d": _conv(2),
    "conv3d": _conv(3),
    "conv_transpose1d": (_transposed(1),),
    "conv_transpose2d": (_transposed(2),),
    "conv_transpose3d": (_transposed(3),),
    "_convolution": (*_convolution(transposed=False), *_convolution(transposed=True)),
    "convolution": (*_convolution(transposed=False), *_convolution(transposed=True)),
    "lstm": (_lstm(4, 2),),
    "gru": (_lstm(3, 1),),
    "rnn_tanh": (_lstm(1, 1),),
    "rnn_relu": (_lstm(1, 1),),
    "lstm_cell": (_cell(4, 2),),
    "gru_cell": (_cell(3, 1),),
    "rnn_tanh_cell": (_cell(1, 1),),
    "rnn_relu_cell": (_cell(1, 1),),
    "batch_norm": tuple(map(_norm, range(4))),
    "instance_norm": tuple(map(_norm, range(1, 4))),
    "linear": (Call((made(2, 4), made(3, 4), made(3)), {}), Call((made(2, 2, 4), made(3, 4)), {})),
    "embedding": (Call((made(2, 3, dtype=I64), made(5, 4), -1, False, False), {}),),
    "embedding_bag": (Call((made(6, dtype=I64), made(5, 4), torch.tensor([0, 3])), {}),),
    "einsum": (
        Call(("ij,jk->ik", [made(2, 3), made(3, 4)]), {}),
        Call(("bij,bjk->bik", [made(2, 3, 4), made(2, 4, 3)]), {}),
        Call(("ii", [made(3, 3)]), {}),
    ),
    "cat": (Call(([made(2, 3), made(2, 3)], 1), {}),),
    "stack": (Call(([made(2, 3), made(2, 3)], 0), {}),),
    "adaptive_avg_pool1d": (Call((made(2, 3, 8), [4]), {}),),
    "adaptive_avg_pool2d": (Call((made(2, 3, 8, 8), [4, 4]), {}),),
    "adaptive_avg_pool3d": (Call((made(2, 3, 8, 8, 8), [4, 4, 4]), {}),),
    "adaptive_max_pool1d": (Call((made(2, 3, 8), [4]), {}),),
    "adaptive_max_pool2d": (Call((made(2, 3, 8, 8), [4, 4]), {}),),
    "adaptive_max_pool3d": (Call((made(2, 3, 8, 8, 8), [4, 4, 4]), {}),),
    "max_unpool2d": (Call((made(1, 1, 2, 2), torch.arange(4).view(1, 1, 2, 2), [4, 4]), {}),),
    "upsample_nearest1d": (_resized(1), _resized(1, 2.0)),
    "upsample_nearest2d": (_resized(2), _resized(2, 2.0, 2.0)),
    "upsample_nearest3d": (_resized(3), _resized(3, 2.0, 2.0, 2.0)),
    "upsample_linear1d": (_resized(1, True),),
    "upsample_bilinear2d": (_resized(2, True), _resized(2, False, 2.0, 2.0)),
    "upsample_bicubic2d": (_resized(2, True),),
    "upsample_trilinear3d": (_resized(3, True),),
    "pad": (Call((made(2, 3, 4, 4), [1, 1, 1, 1], "reflect", None), {}), Call((made(2, 3), [1, 1]), {})),
    "constant_pad_nd": (Call((made(2, 3, 4), [1, 1]), {}),),
    "scaled_dot_product_attention": (Call((made(2, 2, 4, 8), made(2, 2, 4, 8), made(2, 2, 4, 8)), {}),),
    "_native_multi_head_attention": (
        Call((*[made(2, 4, 8)] * 3, 8, 2, made(24, 8), made(24), made(8, 8), made(8)), {}),
    ),
    "prelu": (Call((made(2, 3), made(3)), {}),),
    "cross_entropy_loss": (Call((made(4, 3), made(4, dtype=I64).clamp(max=2)), {}),),
    "binary_cross_entropy": (Call((made(4, 3) / 3, made(4, 3) / 3), {}),),
    "index": (
        Call((made(4, 3), [torch.tensor([0, 1]), torch.tensor([1, 2])]), {}),
        Call((made(4, 3), [None, torch.tensor([1, 2])]), {}),
        Call((made(4), [torch.tensor([True, False, True, True])]), {}),
    ),
    "index_put_": (Call((made(4, 3), [torch.tensor([0, 1])], made(2, 3)), {}),),
    "grid_sampler": (Call((made(1, 2, 4, 4), made(1, 3, 3, 2), 0, 0, True), {}),),
    "quantize_per_tensor": (Call((made(2, 3), 0.1, 0, torch.qint8), {}),),
    "__getitem__": (Call(([1, 2, 3], 1), {}),),
    "format": (Call(("{} {}", 1, 2), {}),),
    "to": (Call((made(2, 3), torch.float64), {}), Call((made(2, 3), "cpu", torch.float64), {})),
    "repeat_interleave": (Call((made(3), torch.tensor([1, 2, 3])), {}),),
    "_pack_padded_sequence": (Call((made(5, 2, 3), torch.tensor([5, 3]), False), {}),),
    "_pad_packed_sequence": (Call((made(8, 3), torch.tensor([2, 2, 2, 1, 1]), False, 0.0, 5), {}),),
}


def names() -> list[str]:
    """The operators of PyTorch's own that a model's code may well name, without ``aten::``."""
    found = {schema.name for schema in torch._C._jit_get_all_schemas()}
    bare = (name.removeprefix("aten::") for name in found if name.startswith("aten::"))
    return sorted(
        {one for one in bare if not (one.endswith("_") or RARE.match(one))} | IN_PLACE | BY_HAND.keys()
    )


def right(name: str, run: Callable[[Call], bool], rng: random.Random) -> list[Call]:
    """Calls of an operator that work.

    Args:
        name: the operator's.
        run: makes a call, and says whether it worked.
        rng: chance.
    """
    given = chain(BY_HAND.get(name, ()), islice(_samples(name), SAMPLES))
    found = [call for call in given if run(call)]
    tries = (call for _ in range(TRIES) for call in _drawn(name, rng))
    return found + list(islice((call for call in tries if run(call)), max(3, RIGHT - len(found))))


def wrong(calls: Sequence[Call], name: str, rng: random.Random) -> Iterator[Call]:
    """Calls of an operator that probably do not work."""
    for call in calls:
        for at, argument in enumerate(_arguments(call)):
            yield from (_with(call, at, other) for other in _others(argument, rng))
        for _ in range(PAIRS // len(calls)):
            changed = call
            for _ in range(2):
                at = rng.randrange(len(_arguments(call)) or 1)
                others = list(_others(_arguments(changed)[at], rng)) if _arguments(changed) else []
                changed = _with(changed, at, rng.choice(others)) if others else changed
            yield changed
    yield from (call for _ in range(WILD) for call in _drawn(name, rng))


def _samples(name: str) -> Iterator[Call]:
    bare = name.removesuffix("_")
    for one in op_db:
        if bare in {one.aten_name, one.name.rpartition(".")[2]} or bare.removeprefix("_") == one.aten_name:
            for dtype in (F32, I64):
                if dtype in one.dtypes:
                    for sample in islice(one.sample_inputs("cpu", dtype), SAMPLES):
                        yield Call((sample.input, *sample.args), sample.kwargs)


def _drawn(name: str, rng: random.Random) -> Iterator[Call]:
    """A call of each overload, by chance."""
    packet = getattr(torch.ops.aten, name)
    for overload in packet.overloads():
        schema = getattr(packet, overload)._schema
        shape = rng.choice(SHAPES)
        given = [one for one in schema.arguments if not one.has_default_value() or rng.random() < 0.3]  # noqa: PLR2004
        values = {one.name: _value(str(one.type), shape, rng) for one in given}
        yield Call((), values)


def _value(kind: str, shape: tuple[int, ...], rng: random.Random) -> object:
    if kind.startswith("Optional["):
        return None if rng.random() < 0.5 else _value(kind[9:-1], shape, rng)  # noqa: PLR2004
    if kind.startswith("List["):
        return [_value(kind[5:-1], shape, rng) for _ in range(rng.randrange(4))]
    if kind == "Tensor":
        own = shape if rng.random() < 0.8 else rng.choice(SHAPES)  # noqa: PLR2004
        return made(*own, dtype=F32 if rng.random() < 0.8 else rng.choice(DTYPES))  # noqa: PLR2004
    if kind in ("int", "t"):
        return rng.choice((0, 1, 1, 2, 3, -1))
    if kind in ("float", "number"):
        return rng.choice((0.5, 1.0, 2.0)) if kind == "float" else rng.choice((1, 2, 0.5))
    others: dict[str, Any] = {"bool": rng.random() < 0.5, "str": rng.choice(("mean", "reflect", "a"))}  # noqa: PLR2004
    return {**others, "complex": 1j, "Device": torch.device("cpu")}.get(kind)


def _arguments(call: Call) -> list[Any]:
    return [*call.args, *call.kwargs.values()]


def _with(call: Call, at: int, argument: object) -> Call:
    values = _arguments(call)
    if values:
        values[at] = argument
    count = len(call.args)
    return Call(tuple(values[:count]), dict(zip(call.kwargs, values[count:], strict=True)))


def _others(argument: object, rng: random.Random) -> Iterator[Any]:
    """What may stand in an argument's stead: of the same type, so that the operator is reached."""
    if isinstance(argument, torch.Tensor):
        yield from _tensors(argument)
    elif isinstance(argument, bool):
        yield not argument
    elif isinstance(argument, int):
        yield from INTS
    elif isinstance(argument, float):
        yield from FLOATS
    elif isinstance(argument, str):
        yield from ("", "bad", "ij,jk->il", "...i,i", "{}{}{}")
    elif isinstance(argument, list | tuple):
        yield from _lists(list(argument), rng)


def _lists(values: list[Any], rng: random.Random) -> Iterator[list[Any]]:
    yield from (
        [],
        values[1:],
        values[:-1],
        [*values, *values[-1:]],
        [*values, *values, *values],
        values[::-1],
    )
    for at, value in enumerate(values):
        others = list(_others(value, rng))
        for other in rng.sample(others, min(len(others), 12)):
            yield [*values[:at], other, *values[at + 1 :]]
    if values and isinstance(values[0], int):
        yield from ([one] * len(values) for one in (-1, 0, 1, 2, 20))


def _tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        return
    shape, dtype, tensor = list(tensor.shape), tensor.dtype, tensor.detach()
    for at in range(len(shape)):
        for size in (shape[at] + 1, shape[at] * 2, 1, 0):
            yield made(*shape[:at], size, *shape[at + 1 :], dtype=dtype)
    for other in (
        [1, *shape],
        [2, *shape],
        shape[1:],
        shape[:-1],
        [],
        [0],
        [7],
        [2, 3],
        [2, 1, 2, 1, 2, 1, 2],
    ):
        yield made(*other, dtype=dtype)
    if len(shape) > 1:
        yield tensor.transpose(0, -1)
        yield tensor[:1].expand_as(tensor)
    yield from (made(*shape, dtype=other) for other in DTYPES if other != dtype)
    yield tensor.to("meta")
    yield torch.empty_like(tensor).requires_grad_(dtype.is_floating_point)
    yield from (tensor + number if dtype != torch.bool else ~tensor for number in (50, -50))
    if shape:
        yield tensor.to_sparse()
    if dtype is F32:
        yield torch.quantize_per_tensor(tensor, 0.1, 0, torch.quint8)
