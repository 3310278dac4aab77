"""What the operations of a run computed, and where two runs part, as JSON."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, NotRequired, TypedDict

from archive import __version__
from archive.render.documents import Document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.backend.values.running import Run
    from archive.debuginfo.values.gaps import Gap, ValueDiff, ValueGap
    from archive.debuginfo.values.observed import Observed, ObservedOperation, Range, Summary
    from archive.debuginfo.values.pairing import Pair


class TensorFacts(TypedDict):
    """A tensor in numbers; those of finite elements are null where there are none.

    Attributes:
        shape: its sizes.
        dtype: of its elements.
        min: the smallest finite element.
        max: the largest.
        mean: of the finite elements.
        std: their standard deviation.
        zeros: how many are 0.
        nan: how many are not a number.
        inf: how many are infinite.
        digest: the first 8 bytes of SHA-256 of the elements in row-major order.
    """

    shape: Sequence[int]
    dtype: str
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    zeros: int
    nan: int
    inf: int
    digest: str


class RangeFacts(TypedDict):
    """The range of a tensor; null where it has no finite element.

    Attributes:
        shape: its sizes.
        dtype: of its elements.
        min: the smallest finite element.
        max: the largest.
        nan: how many are not a number.
        inf: how many are infinite.
    """

    shape: Sequence[int]
    dtype: str
    min: float | None
    max: float | None
    nan: int
    inf: int


class OperationFacts(TypedDict):
    """An operation that ran.

    Attributes:
        number: its number in the run.
        operator: its name.
        file: of the innermost line of the model's own code; null if unknown.
        line: its number in the file.
        source: its text.
        module: the path of the module that it belongs to.
        handle: its debug handle; null without one.
        node: the name of its node in an exported program; null outside of programs.
        visit: how often it ran before, as in a loop.
        results: the tensors that it returned.
        inputs: the ranges of its arguments, where it is the first to make a NaN or an infinite number, or has
            one that no other operation gave it.
    """

    number: int
    operator: str
    file: str | None
    line: int | None
    source: str | None
    module: str
    handle: int | None
    node: str | None
    visit: int
    results: Sequence[TensorFacts]
    inputs: NotRequired[Sequence[RangeFacts]]


class RunFacts(TypedDict):
    """A run of a model.

    Attributes:
        file: that ran.
        form: what ran it.
        operations: in the order of the run; with `--first-nan` those that the other keys name.
        unseen: what ran without being seen, and how often.
        first_nan: the first operation that made a NaN; null if none did.
        first_inf: the same of infinite numbers.
        reaching_nan: the operations at which the NaNs of the model's results begin; null if that is not
            known: with `--first-nan`, `--watch` or `--save` it is.
        reaching_inf: the same of infinite numbers.
        doubts: why values that a device noted may be of another run.
    """

    file: str
    form: str
    operations: Sequence[OperationFacts]
    unseen: Mapping[str, int]
    first_nan: OperationFacts | None
    first_inf: OperationFacts | None
    reaching_nan: Sequence[OperationFacts] | None
    reaching_inf: Sequence[OperationFacts] | None
    doubts: Sequence[str]


class LineFacts(TypedDict):
    """A line of the model's own code.

    Attributes:
        file: null if unknown.
        line: its number in the file.
        module: the path of the module.
    """

    file: str | None
    line: int | None
    module: str


class GapFacts(TypedDict):
    """An operation beside that of the base; numbers are null where they are infinite or not a number.

    Attributes:
        file: of the innermost line of the model's own code; null if unknown.
        line: its number in the file.
        module: the path of the module.
        operator: of the run; "" where only the base has it.
        base_operator: of the base, likewise.
        paired_by: how they were found.
        is_weak: whether the base's may be a neighbour that computes the same.
        layer: the line of the layer that one of both has folded the operation into; null without one.
        is_shown: whether only one of the runs has the operation, and its value has nothing of its size beside
            it.
        max_abs: the largest absolute difference. Where ``is_shown``, this and the numbers after it are those
            of what follows from the operation.
        max_rel: that by the base's largest value.
        snr_db: signal-to-noise ratio; null where nothing differs, or all does.
        cosine: of the angle between them.
        odd: elements that are finite in only one of them, or infinite with another sign. Where there are
            some, the other numbers are null.
        mse: mean squared difference.
        mae: mean absolute difference.
    """

    file: str | None
    line: int | None
    module: str
    operator: str
    base_operator: str
    paired_by: str
    is_weak: bool
    layer: LineFacts | None
    is_shown: bool
    max_abs: float | None
    max_rel: float | None
    snr_db: float | None
    cosine: float | None
    odd: int
    mse: float | None
    mae: float | None


class ResultGapFacts(TypedDict):
    """A result of the model beside that of the base; as of operations."""

    max_abs: float | None
    max_rel: float | None
    snr_db: float | None
    cosine: float | None
    odd: int
    mse: float | None
    mae: float | None


class RunComparison(TypedDict):
    """A run beside another one of the same model.

    Attributes:
        file: that ran.
        base: that it is compared with.
        form: what ran it.
        base_form: what ran the base.
        tolerance: of relative differences.
        first: where the difference surely begins: the first operation beyond it, or an extra one before that;
            null if that is not sure.
        may_hide_norm: whether the first is a layer that both may have folded a batch normalisation into,
            which the difference may be of.
        may_be_unseen: whether the difference may begin in what a run has not seen. Nothing is first then.
        largest_drop: where the signal-to-noise ratio falls the most; null if it falls by 6 dB nowhere.
        pairs: in the order of the run.
        inside: how many operations of each are inside of one of the other.
        left: how many of each belong to none of the other.
        uncompared: pairs of truth values, or of indices that floats choose.
        unseen: what ran without being seen in each of both, and how often.
        results: of the model.
        doubts: why both may be of different models, of other inputs, or of another run of a device.
    """

    file: str
    base: str
    form: str
    base_form: str
    tolerance: float
    first: GapFacts | None
    may_hide_norm: bool
    may_be_unseen: bool
    largest_drop: GapFacts | None
    pairs: Sequence[GapFacts]
    inside: Sequence[int]
    left: Sequence[int]
    uncompared: int
    unseen: Sequence[Mapping[str, int]]
    results: Sequence[ResultGapFacts]
    doubts: Sequence[str]


def run_document(run: Run) -> str:
    """The document of a run, as ``run --json`` prints it."""
    document = Document("run", __version__)
    return document.entry(run_facts(run.file, run.observed)) + document.end()


def run_facts(file: str, observed: Observed) -> RunFacts:
    """A run as its document."""
    firsts = [
        None if one is None else operation_facts(one) for one in (observed.first_nan, observed.first_inf)
    ]
    nans, infinite = observed.reaching("nan"), observed.reaching("inf")
    return {
        "file": file,
        "form": observed.form,
        "operations": [*map(operation_facts, observed.operations)],
        "unseen": dict(observed.unseen),
        "first_nan": firsts[0],
        "first_inf": firsts[1],
        "reaching_nan": None if nans is None else [*map(operation_facts, nans)],
        "reaching_inf": None if infinite is None else [*map(operation_facts, infinite)],
        "doubts": observed.doubts,
    }


def first_facts(file: str, observed: Observed) -> RunFacts:
    """A run as its document, with only the operations at which NaNs and infinite numbers begin."""
    facts = run_facts(file, observed)
    firsts = [
        facts["first_nan"],
        facts["first_inf"],
        *(facts["reaching_nan"] or ()),
        *(facts["reaching_inf"] or ()),
    ]
    numbers = {each["number"]: each for each in firsts if each is not None}
    return {**facts, "operations": [numbers[number] for number in sorted(numbers)]}


def operation_facts(operation: ObservedOperation) -> OperationFacts:
    """An operation as it is in documents."""
    source = operation.place.source
    facts: OperationFacts = {
        "number": operation.number,
        "operator": operation.op,
        "file": source.file if source else None,
        "line": source.number if source else None,
        "source": source.text if source else None,
        "module": operation.place.module,
        "handle": operation.handle,
        "node": operation.node,
        "visit": operation.visit,
        "results": [*map(_tensor_facts, operation.results)],
    }
    if operation.inputs:
        facts["inputs"] = [*map(_range_facts, operation.inputs)]
    return facts


def _range_facts(given: Range) -> RangeFacts:
    return {
        "shape": given.shape,
        "dtype": given.dtype,
        "min": _known(given.low),
        "max": _known(given.high),
        "nan": given.nan,
        "inf": given.inf,
    }


def _known(value: float) -> float | None:
    return value if isfinite(value) else None


def _tensor_facts(result: Summary) -> TensorFacts:
    return {
        "shape": result.shape,
        "dtype": result.dtype,
        "min": _known(result.low),
        "max": _known(result.high),
        "mean": _known(result.mean),
        "std": _known(result.std),
        "zeros": result.zeros,
        "nan": result.nan,
        "inf": result.inf,
        "digest": result.digest,
    }


def comparison_facts(file: str, base: str, diff: ValueDiff) -> RunComparison:
    """Two runs as their document."""
    first, drop = diff.first, diff.largest_drop
    return {
        "file": file,
        "base": base,
        "form": diff.mine.form,
        "base_form": diff.base.form,
        "tolerance": diff.tolerance,
        "first": None if first is None else gap_facts(first),
        "may_hide_norm": first is not None and diff.may_hide_norm(first),
        "may_be_unseen": diff.may_be_unseen,
        "largest_drop": None if drop is None else gap_facts(drop),
        "pairs": [*map(gap_facts, diff.gaps)],
        "inside": diff.pairs.inside,
        "left": [len(left) for left in diff.pairs.left],
        "uncompared": diff.uncompared,
        "unseen": [dict(observed.unseen) for observed in (diff.mine, diff.base)],
        "results": [_numbers(gap) for gap in diff.outputs],
        "doubts": diff.doubts,
    }


def gap_facts(each: ValueGap) -> GapFacts:
    """An operation beside that of the base as it is in documents."""
    layer, (operator, base_operator) = each.layer, operators_of(each.pair)
    return {
        **_line_facts(each.known),
        "operator": operator,
        "base_operator": base_operator,
        "paired_by": each.pair.how,
        "is_weak": each.pair.is_weak,
        "layer": None if layer is None else _line_facts(layer),
        "is_shown": each.is_shown,
        **_numbers(each.gap),
    }


def _line_facts(operation: ObservedOperation) -> LineFacts:
    source = operation.place.source
    return {
        "file": source.file if source else None,
        "line": source.number if source else None,
        "module": operation.place.module,
    }


def _numbers(gap: Gap) -> ResultGapFacts:
    return {
        "max_abs": _known(gap.max_abs),
        "max_rel": _known(gap.max_rel),
        "snr_db": _known(gap.snr_db),
        "cosine": _known(gap.cosine),
        "odd": gap.odd,
        "mse": _known(gap.mse),
        "mae": _known(gap.mae),
    }


def operators_of(pair: Pair) -> list[str]:
    """The operators of both runs; what only one of them has is beside nothing."""
    return [each.op if pair.extra in {None, each} else "" for each in (pair.mine, pair.base)]
