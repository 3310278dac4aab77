"""Sees the results of each operator that PyTorch runs, and notes them."""

from __future__ import annotations

import tempfile
import weakref
from collections import Counter
from hashlib import sha256
from math import isfinite
from typing import IO, TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from archive.backend.pytorch import message_of
from archive.debuginfo.profiles.places import UNKNOWN_PLACE
from archive.debuginfo.values.observed import Kept, Observed, ObservedOperation, Summary
from archive.effects.nested import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.debuginfo.profiles.places import OperationPlace

DIGEST_DIGITS = 16
SILENT = frozenset(
    [
        "aten::_assert_async",
        "aten::_assert_tensor_metadata",
        "aten::detach",
        "aten::lift_fresh_copy",
        "aten::size",
        "prim::device",
        "prim::dtype",
        "prim::layout",
    ]
)
"""Operators that some forms run and others do not, for no value of the model."""


class KeptValues:
    """Tensors in a file without a name, which is gone when it is closed, or when this object is."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (kept open; ``close``)
        self.close = weakref.finalize(self, self._file.close)
        self._size = 0

    def add(self, tensor: torch.Tensor) -> Kept:
        """Keep a dense tensor."""
        data = _bytes_of(tensor)
        kept = Kept(self._size, len(data), tuple(tensor.shape), name_of(tensor.dtype))
        self._file.write(data)
        self._size += len(data)
        return kept

    def bytes_of(self, kept: Kept) -> bytes:
        """The elements of a tensor in row-major order."""
        self._file.seek(kept.offset)
        return self._file.read(kept.size)

    def tensor(self, kept: Kept) -> torch.Tensor:
        """A tensor as it was kept."""
        kind = getattr(torch, kept.dtype)
        if not kept.size:
            return torch.empty(kept.shape, dtype=kind)
        return torch.frombuffer(bytearray(self.bytes_of(kept)), dtype=kind).reshape(kept.shape)


class Recorder:
    """What is noted of a run.

    Args:
        form: what runs the model.
        kept: where values are kept; None to keep none.

    Attributes:
        observed: what was seen; places are added by :meth:`finish`.
        failure: the operator that failed, and its message, which TorchScript loses; None if none did.
    """

    def __init__(self, form: str, kept: KeptValues | None) -> None:
        self.observed = Observed(form)
        self.failure: tuple[str, str] | None = None
        self._kept = kept
        self._results: list[tuple[str, tuple[Summary, ...], tuple[Kept, ...], tuple[Summary, ...]]] = []
        self._first: dict[str, int] = {}
        self._outputs: tuple[tuple[Summary, ...], tuple[Kept, ...]] | None = None

    def __len__(self) -> int:
        return len(self._results)

    @property
    def ops(self) -> list[str]:
        """The operators that ran."""
        return [op for op, *_ in self._results]

    def note(self, op: str, before: Sequence[Summary], given: object, result: object) -> None:
        """Note the results of an operation.

        Args:
            before: the ranges of arguments that it may have changed, as they were.
            given: its arguments.
        """
        tensors = [dense(tensor) for tensor in tensors_in(result)]
        results = tuple(map(summary, tensors))
        kept = tuple(map(self._kept.add, tensors)) if self._kept is not None else ()
        self._results.append((op, results, kept, self._inputs(results, before, given)))

    def outputs(self, result: object) -> None:
        """Note what the model returns."""
        tensors = [dense(tensor) for tensor in tensors_in(result)]
        kept = tuple(map(self._kept.add, tensors)) if self._kept is not None else ()
        self._outputs = tuple(map(summary, tensors)), kept

    def _inputs(
        self, results: Sequence[Summary], before: Sequence[Summary], given: object
    ) -> tuple[Summary, ...]:
        """Summaries of the arguments of an operation that is the first to make a NaN or infinite number."""
        made = [kind for kind in ("nan", "inf") if any(getattr(each, kind) for each in results)]
        wanted = [kind for kind in made if kind not in self._first]
        if not wanted:
            return ()
        inputs = before or tuple(summary(dense(tensor)) for tensor in tensors_in(given))
        for kind in wanted:
            has = any(getattr(each, kind) for each in inputs)
            asked = kind == "inf" and any(not isfinite(number) for number in _floats_in(given))
            if not has and not asked:
                self._first[kind] = len(self._results)
        return tuple(inputs) if len(self._results) in self._first.values() else ()

    def finish(self, places: Sequence[tuple[OperationPlace, int | str | None] | None]) -> Observed:
        """The run, with the place and key of each operation; operations without are left out."""
        observed, visits = self.observed, Counter[object]()
        by_number: dict[int, ObservedOperation] = {}
        for number, ((op, results, kept, inputs), found) in enumerate(
            zip(self._results, places, strict=True)
        ):
            if found is None or op in SILENT or not results:
                continue
            place, key = found
            visit = visits[place, key, op]
            visits[place, key, op] += 1
            made = ObservedOperation(len(observed.operations), op, place, key, visit, results, kept, inputs)
            by_number[number] = made
            observed.operations.append(made)
        observed.first_nan, observed.first_inf = (
            by_number.get(self._first.get(kind, -1)) for kind in ("nan", "inf")
        )
        if self._outputs is not None:
            observed.outputs = ObservedOperation(
                len(observed.operations), "", UNKNOWN_PLACE, None, 0, *self._outputs
            )
        return observed


class Observer(TorchDispatchMode):  # type: ignore[misc]  # PyTorch has no types of it
    """Notes the results of every operator in this thread.

    Args:
        recorder: what notes them.
        mark: called before each operation, with its number.
    """

    def __init__(self, recorder: Recorder, mark: Callable[[int], None]) -> None:
        super().__init__()
        self._recorder, self._mark = recorder, mark

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (PyTorch's own)
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:  # noqa: ANN401
        given = (args, kwargs or {})
        self._mark(len(self._recorder))
        with without_records():
            schema = func._schema
            before = [span(dense(each)) for each in tensors_in(given)] if schema.is_mutable else []
            try:
                result = func(*args, **(kwargs or {}))
            except Exception as error:
                self._recorder.failure = schema.name, message_of(error)
                raise
            self._recorder.note(schema.name, before, given, result)
        return result


class without_records:  # noqa: N801 (used as a function)
    """No events of PyTorch's profiler in this thread."""

    def __enter__(self) -> None:
        torch._C._autograd._enable_record_function(False)

    def __exit__(self, *_: object) -> None:
        torch._C._autograd._enable_record_function(True)


def _floats_in(value: object) -> Iterator[float]:
    """The floats of a nested value, tensors aside."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _floats_in(each)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as numbers in memory: quantised and sparse ones as what they stand for."""
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor.to_dense() if tensor.layout != torch.strided else tensor.detach()


def name_of(dtype: torch.dtype) -> str:
    """A dtype's name: ``float32``."""
    return str(dtype).removeprefix("torch.")


def _bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements in row-major order."""
    data: bytes = _flat(tensor).view(torch.uint8).numpy().tobytes()
    return data


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in row-major order, one after the other."""
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element may have any stride.
    return flat if flat.stride() == (1,) else flat.clone(memory_format=torch.contiguous_format)


def summary(tensor: torch.Tensor) -> Summary:
    """A dense tensor in numbers."""
    shape, dtype = tuple(tensor.shape), name_of(tensor.dtype)
    flat = _flat(tensor)
    digest = sha256(flat.view(torch.uint8).numpy()).hexdigest()[:DIGEST_DIGITS]
    if not flat.numel():
        return Summary(shape, dtype, digest=digest)
    numbers = _real(flat)
    zeros = numbers.numel() - int(torch.count_nonzero(numbers))
    low, high = _range(numbers)
    nan = inf = 0
    if not (isfinite(low) and isfinite(high)):
        nan, inf = int(torch.isnan(numbers).sum()), int(torch.isinf(numbers).sum())
        numbers = numbers[torch.isfinite(numbers)]
        if not numbers.numel():
            return Summary(shape, dtype, zeros=zeros, nan=nan, inf=inf, digest=digest)
        low, high = _range(numbers)
    return Summary(shape, dtype, low, high, *_mean_and_std(numbers), zeros, nan, inf, digest)


def span(tensor: torch.Tensor) -> Summary:
    """The smallest and largest element of a dense tensor, and whether there are NaNs or infinite numbers."""
    shape, dtype = tuple(tensor.shape), name_of(tensor.dtype)
    if not tensor.numel():
        return Summary(shape, dtype)
    low, high = _range(_real(tensor.resolve_conj().reshape(-1)))
    if isfinite(low) and isfinite(high):
        return Summary(shape, dtype, low, high)
    return summary(tensor)


def _real(flat: torch.Tensor) -> torch.Tensor:
    """Elements as floats that PyTorch computes with; those of complex numbers one after the other."""
    if flat.is_complex():
        return torch.view_as_real(flat).reshape(-1)
    if not flat.is_floating_point():
        return flat.double()
    return flat.float() if flat.element_size() < 4 else flat  # noqa: PLR2004 (bytes)


def _range(numbers: torch.Tensor) -> tuple[float, float]:
    low, high = torch.aminmax(numbers)
    return low.item(), high.item()


def _mean_and_std(numbers: torch.Tensor) -> tuple[float, float]:
    """The mean, and the standard deviation around it: PyTorch's own ``std_mean`` takes ten times as long."""
    mean = numbers.mean()
    std = torch.linalg.vector_norm(numbers - mean) / numbers.numel() ** 0.5
    if numbers.dtype != torch.float64 and not (isfinite(mean) and isfinite(std)):
        return _mean_and_std(numbers.double())
    return mean.item(), std.item()
