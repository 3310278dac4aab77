"""Sees the results of each operator that PyTorch runs, and notes them."""

from __future__ import annotations

import tempfile
import weakref
from hashlib import sha256
from math import isfinite, nan
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from archive.backend.pytorch import message_of
from archive.backend.values.masks import hidden
from archive.debuginfo.values.observed import (
    UNSEEN,
    Kept,
    NotedOperation,
    NotedRun,
    Observed,
    Range,
    Summary,
    Unmasked,
)
from archive.effects.nested import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from archive.debuginfo.profiles.places import OperationPlace

    Numbers = np.ndarray[Any, np.dtype[np.floating[Any]]]

DIGEST_DIGITS = 16
PLAIN = frozenset({torch.float32, torch.float64})
"""Types whose elements NumPy has as they are."""
FEW = 1 << 12
"""Numbers whose zeros are counted at once."""
FITTING = 1e12
"""The squares of smaller numbers have a finite sum in 32 bits, of as many as fit into memory."""
LIFTS = frozenset({"aten::lift", "aten::lift_fresh", "aten::lift_fresh_copy"})
"""Operators that a tensor made of Python's numbers goes through first."""


class KeptValues:
    """Tensors in a file without a name, which is gone when it is closed, or when this object is."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (kept open; ``close``)
        self.close = weakref.finalize(self, self._file.close)
        self._size = 0

    def add(self, flat: torch.Tensor) -> Kept:
        """Keep elements that lie one after the other."""
        data: Any = flat.view(torch.uint8).numpy()
        kept = Kept(self._size, len(data))
        self._file.write(data)
        self._size += len(data)
        return kept

    def bytes_of(self, kept: Kept) -> bytes:
        """The elements of a tensor in row-major order."""
        self._file.seek(kept.offset)
        return self._file.read(kept.size)

    def tensor(self, result: Summary) -> torch.Tensor:
        """A tensor as it was kept.

        Raises:
            ValueError: it was not kept.
        """
        if result.kept is None:
            raise ValueError("values were not kept: run(..., keep=True)")
        kind = getattr(torch, result.dtype)
        if not result.kept.size:
            return torch.empty(result.shape, dtype=kind)
        return torch.frombuffer(bytearray(self.bytes_of(result.kept)), dtype=kind).reshape(result.shape)


class Writers:
    """Which operation last wrote the memory of each tensor; views have that of the tensor that they show.

    And which one returned it just as it is since then: of a view that which made the view.
    """

    def __init__(self) -> None:
        self._writers: dict[int, int] = {}
        self._makers: dict[int, dict[Hashable, int]] = {}

    def of(self, given: object) -> tuple[int, ...]:
        """The operation that wrote each tensor of a nested value; none for weights."""
        found = (self._writers.get(each) for each in _memory(given))
        return (*(each for each in found if each is not None),)

    def makers_of(self, given: object) -> tuple[int, ...]:
        """The operation that returned each of the tensors that :meth:`of` has; ``UNSEEN`` where none did."""
        tensors = [each for each in tensors_in(given) if each.layout == torch.strided]
        places = [(each.untyped_storage().data_ptr(), each) for each in tensors]
        return (
            *(
                self._makers.get(memory, {}).get(_shown(each), UNSEEN)
                for memory, each in places
                if memory in self._writers
            ),
        )

    def note(self, number: int, op: str, given: object, result: object, *, changes: bool) -> None:
        """Note what an operation wrote.

        Args:
            changes: whether it may have changed its arguments; without, what it returns of them is a view.
        """
        # What is lifted was made without an operation, where another tensor may have been before.
        shown = () if changes or op in LIFTS else {*_memory(given)}
        written = [each for each in _memory(result) if each not in shown]
        self._writers |= dict.fromkeys(written, number)
        for each in written:
            self._makers.pop(each, None)
        tensors = [each for each in tensors_in(result) if each.layout == torch.strided]
        if len(tensors) == 1:
            makers = self._makers.setdefault(tensors[0].untyped_storage().data_ptr(), {})
            makers[_shown(tensors[0])] = number


def _memory(value: object) -> Iterator[int]:
    """Where the elements of each strided tensor of a nested value are."""
    for tensor in tensors_in(value):
        if tensor.layout == torch.strided:
            yield tensor.untyped_storage().data_ptr()


def _shown(tensor: torch.Tensor) -> Hashable:
    """Which elements of its memory a strided tensor has, and in which order."""
    flags = tensor.dtype, tensor.is_conj(), tensor.is_neg()
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), *flags


class Recorder:
    """What is noted of a run.

    Args:
        form: what runs the model.
        values: where they are kept; None to keep none.
        knows_inputs: whether operations are noted with what they were given, which shows which of them is the
            first to make a NaN.

    Attributes:
        run: what was seen; places are added by :meth:`finish`.
        failure: the operator that failed, and its message, which TorchScript loses; None if none did.
    """

    def __init__(self, form: str, values: KeptValues | None, *, knows_inputs: bool = True) -> None:
        self.run = NotedRun(Observed(form))
        self._knows_inputs = knows_inputs
        self.failure: tuple[str, str] | None = None
        self._values = values
        self._writers = Writers()
        self._having: dict[str, set[int]] = {"nan": set(), "inf": set()}

    @property
    def observed(self) -> Observed:
        """The run without its operations."""
        return self.run.observed

    def __len__(self) -> int:
        return len(self.run.operations)

    @property
    def ops(self) -> list[str]:
        """The operators that ran."""
        return [noted.op for noted in self.run.operations]

    def note(
        self, op: str, before: Sequence[Range], given: object, result: object, *, hides: bool = False
    ) -> None:
        """Note the results of an operation.

        Args:
            before: the ranges of arguments that it may have changed, as they were.
            given: its arguments; if others ran unseen before it, those that they were given.
            hides: whether others did.
        """
        number, results = len(self), self._summaries(result)
        sources: tuple[int, ...] = ()
        makers: tuple[int, ...] = ()
        unmasked = None
        if self._values is not None:  # only runs with values are compared
            sources = (*self._writers.of(given), *((UNSEEN,) if hides else ()))
            makers = () if hides else self._writers.makers_of(given)
            if not hides and (found := hidden(op, given)) is not None:
                unmasked = Unmasked(found[0], self._writers.of(found[1]))
            self._writers.note(number, op, given, result, changes=bool(before))
        is_odd = self._knows_inputs and any(each.nan or each.inf for each in results)
        inputs = self._made_of(number, before, given, results, sources) if is_odd else ()
        self.run.operations.append(NotedOperation(op, results, inputs, sources, unmasked, makers))

    def _made_of(
        self,
        number: int,
        before: Sequence[Range],
        given: object,
        results: Sequence[Summary],
        sources: Sequence[int],
    ) -> tuple[Range, ...]:
        """The ranges of an operation's arguments, if it has a NaN or an infinite number of no other one."""
        kinds, has_sources = list[str](), self._values is not None
        for kind, having in self._having.items():
            if any(getattr(each, kind) for each in results):
                is_given = not having.isdisjoint(sources) if has_sources else kind in self.run.first
                kinds += [] if is_given else [kind]
                having.add(number)
        inputs = (*(before or ranges_in(given)),) if kinds else ()
        made = [kind for kind in kinds if _makes(kind, inputs, given)]
        for kind in made:
            self.run.first.setdefault(kind, number)
        is_fresh = made or (has_sources and any(getattr(each, kind) for each in inputs for kind in kinds))
        return inputs if is_fresh else ()

    def note_inputs(self, given: object) -> None:
        """Note what the model is given, before it runs."""
        if self._values is None:
            return
        self.observed.inputs = self._summaries(given)
        for number, tensor in enumerate(tensors_in(given)):
            self._writers.note(~number, "", (), tensor, changes=True)

    def note_hidden(self, op: str) -> None:
        """Note an operation that ran without being seen."""
        self.run.operations.append(NotedOperation(op, (), (), is_hidden=True))

    def note_unseen(self, result: object) -> None:
        """Note that what made these tensors was not seen."""
        self._writers.note(UNSEEN, "", (), result, changes=True)

    def note_outputs(self, result: object) -> None:
        """Note what the model returns."""
        self.observed.outputs = self._summaries(result)
        self.observed.output_sources = self._writers.of(result)

    def _summaries(self, result: object) -> tuple[Summary, ...]:
        """A summary of each tensor of a result, whose values are kept if they should be."""
        tensors = [dense(tensor) for tensor in tensors_in(result)]
        flats = map(_flat, tensors)
        return (*(_summary(*each, self._values) for each in zip(tensors, flats, strict=True)),)

    def finish(self, places: Sequence[tuple[OperationPlace, int | str | None] | None]) -> Observed:
        """The run, with the place and key of each operation; operations without are left out."""
        return self.run.placed(places)


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
            before = changed_ranges(schema, given)
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


def changed_ranges(schema: Any, given: object) -> tuple[Range, ...]:  # noqa: ANN401 (PyTorch's own)
    """The ranges of the arguments of an operator that may change them; () of any other operator."""
    return ranges_in(given) if schema.is_mutable else ()


def ranges_in(given: object) -> tuple[Range, ...]:
    """The range of each tensor of a nested value."""
    return tuple(range_of(dense(each)) for each in tensors_in(given))


def _makes(kind: str, inputs: Sequence[Range], given: object) -> bool:
    """Whether an operation makes NaNs or infinite numbers that its arguments neither have nor ask for."""
    asks = kind == "inf" and not all(map(isfinite, _floats_in(given)))
    return not asks and not any(getattr(each, kind) for each in inputs)


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
    if tensor.layout != torch.strided:
        return tensor.to_dense()
    return tensor.detach() if tensor.requires_grad else tensor


def name_of(dtype: torch.dtype) -> str:
    """A dtype's name: ``float32``."""
    return str(dtype).removeprefix("torch.")


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in row-major order, one after the other."""
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element may have any stride.
    return flat if flat.stride() == (1,) else flat.clone(memory_format=torch.contiguous_format)


def _summary(tensor: torch.Tensor, flat: torch.Tensor, values: KeptValues | None) -> Summary:
    """A dense tensor in numbers. NumPy computes them: of small tensors in a third of PyTorch's time.

    Args:
        flat: its elements in row-major order.
        values: where they are kept; None to keep none.
    """
    numbers = _real(flat)
    # Of other types it gets the bytes: it has no bfloat16.
    elements: Any = numbers if flat.dtype in PLAIN else flat.view(torch.uint8).numpy()
    finite = _finite(numbers)
    is_small = numbers.size <= FEW  # of many floats themselves, counting takes five times as long
    return Summary(
        tuple(tensor.shape),
        name_of(tensor.dtype),
        finite.low,
        finite.high,
        *_mean_and_std(finite),
        int(numbers.size - np.count_nonzero(numbers) if is_small else np.count_nonzero(numbers == 0)),
        finite.nan,
        finite.inf,
        sha256(elements).hexdigest()[:DIGEST_DIGITS],
        None if values is None else values.add(flat),
    )


def range_of(tensor: torch.Tensor) -> Range:
    """The range of a dense tensor."""
    finite = _finite(_real(_flat(tensor)))
    return Range(tuple(tensor.shape), name_of(tensor.dtype), *finite[1:])


def _real(flat: torch.Tensor) -> Numbers:
    """Elements as floats that NumPy computes with; those of complex numbers one after the other."""
    if flat.dtype not in PLAIN:
        if flat.is_complex():
            flat = torch.view_as_real(flat).reshape(-1)
        if not flat.is_floating_point():
            flat = flat.double()
        elif flat.element_size() < 4:  # noqa: PLR2004 (bytes)
            flat = flat.float()
    numbers: Numbers = flat.numpy()
    return numbers


class _Finite(NamedTuple):
    """The finite ones of some numbers, their range, and how many others there are."""

    numbers: Numbers
    low: float
    high: float
    nan: int = 0
    inf: int = 0


def _finite(numbers: Numbers) -> _Finite:
    low, high = _bounds(numbers)
    if isfinite(low) and isfinite(high):
        return _Finite(numbers, low, high)
    rest = numbers[np.isfinite(numbers)]
    nans, infinite = np.count_nonzero(np.isnan(numbers)), np.count_nonzero(np.isinf(numbers))
    return _Finite(rest, *_bounds(rest), int(nans), int(infinite))


def _bounds(numbers: Numbers) -> tuple[float, float]:
    if not numbers.size:
        return nan, nan
    return float(np.minimum.reduce(numbers)), float(np.maximum.reduce(numbers))


def _mean_and_std(finite: _Finite) -> tuple[float, float]:
    """The mean, and the standard deviation around it."""
    numbers = finite.numbers
    if not numbers.size:
        return nan, nan
    if finite.low > -FITTING and finite.high < FITTING:
        return _moments(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        found = _moments(numbers)
        if numbers.dtype != np.float64 and not all(map(isfinite, found)):
            found = _moments(numbers.astype(np.float64))
    return found


def _moments(numbers: Numbers) -> tuple[float, float]:
    mean = np.add.reduce(numbers) / numbers.size
    rest = numbers - mean
    return float(mean), (float(rest.dot(rest)) / numbers.size) ** 0.5
