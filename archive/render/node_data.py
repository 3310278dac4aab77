"""Facts of operations → node data of Model Explorer: a number for each node of a graph, and its colours.

A file of node data is ``GraphNodeData`` as JSON, for the graph that is shown when it is opened::

    {"name": "mean", "results": {"blocks.0 aten::add net.py:28": {"value": 0.5}, "linear_3": …},
     "gradient": [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#f28b2d"}]}

``results`` has the ids of nodes, the same as the graphs of ``archive.app.model_explorer`` have
(:func:`~archive.debuginfo.profiles.places.node_id`). Of a loop or of several runs, a node has one number.
Source: ``node_data_builder.py`` of ai-edge-model-explorer 0.1.34, in whose page NaN is no number.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from math import isfinite
from typing import TYPE_CHECKING, NotRequired, TypedDict

from archive.debuginfo.profiles.places import node_id, weight_id
from archive.debuginfo.values.observed import elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.debuginfo.profiles.profile import Profile
    from archive.debuginfo.values.gaps import ValueDiff
    from archive.debuginfo.values.observed import Observed, ObservedOperation
    from archive.describe.sizes.account import Size

WHITE, ORANGE, RED = "#ffffff", "#f28b2d", "#d93025"
NS_PER_MS = 1e6


class NodeResult(TypedDict):
    """The number of a node; a colour of its own goes before those of all nodes."""

    value: float
    bgColor: NotRequired[str]


class ColourStop(TypedDict):
    """A colour, from 0 for the smallest number to 1 for the largest."""

    stop: float
    bgColor: str


class Threshold(TypedDict):
    """The colour of numbers up to a value, which are larger than that of the threshold before."""

    value: float
    bgColor: str


class GraphNodeData(TypedDict):
    """The numbers of a graph's nodes."""

    name: str
    results: Mapping[str, NodeResult]
    gradient: NotRequired[list[ColourStop]]
    thresholds: NotRequired[list[Threshold]]


class NodeDataFacts(TypedDict):
    """The node data of a file."""

    file: str
    data: GraphNodeData


class NodeDataText:
    """Node data as a document."""

    head = tail = ""

    def lines(self, file: str, facts: NodeDataFacts) -> Iterator[str]:  # noqa: ARG002 (all forms take it)
        """The text of a file."""
        yield json.dumps(facts["data"], ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def means(observed: Observed) -> GraphNodeData:
    """The mean of each operation's finite elements; red where others are NaN or infinite."""
    sums, counts, odd = defaultdict[str, float](float), Counter[str](), set[str]()
    for number, operation in _known(observed.operations):
        for result in operation.results:
            many = elements(result.shape) - result.nan - result.inf
            if many and isfinite(result.mean):
                sums[number] += result.mean * many
                counts[number] += many
            if result.nan or result.inf:
                odd.add(number)
    results: dict[str, NodeResult] = {name: {"value": sums[name] / counts[name]} for name in counts}
    for name in odd & counts.keys():
        results[name]["bgColor"] = RED
    return _shaded("mean of the result", results)


def odd_elements(observed: Observed) -> GraphNodeData:
    """How many elements of each operation's results are NaN or infinite; red where there are some."""
    counts = Counter[str]()
    for number, operation in _known(observed.operations):
        counts[number] += sum(result.nan + result.inf for result in operation.results)
    results: dict[str, NodeResult] = {name: {"value": many} for name, many in counts.items()}
    most = max([1, *counts.values()])
    thresholds: list[Threshold] = [{"value": 0, "bgColor": WHITE}, {"value": most, "bgColor": RED}]
    return {"name": "NaN and infinite elements", "results": results, "thresholds": thresholds}


def differences(diff: ValueDiff) -> GraphNodeData:
    """The largest absolute difference of each operation from its base's; red beyond the tolerance."""
    results: dict[str, NodeResult] = {}
    beyond = set[str]()
    for gap in diff.gaps:
        if gap.pair.extra is gap.pair.base:  # the run has no node of it
            continue
        for number, _ in _known([gap.pair.mine]):
            before = results.get(number)
            if isfinite(gap.gap.max_abs) and (before is None or gap.gap.max_abs > before["value"]):
                results[number] = {"value": gap.gap.max_abs}
            if gap.gap.is_beyond(diff.tolerance):
                beyond.add(number)
    most = max((each["value"] for each in results.values()), default=0)
    for number in beyond:  # an infinite difference is drawn as the largest finite one: JSON has none
        results.setdefault(number, {"value": most})["bgColor"] = RED
    return _shaded(f"largest difference (red: beyond {diff.tolerance:g})", results)


def times(profile: Profile, runs: int) -> GraphNodeData:
    """The time of each operation in a run, in ms."""
    times_ns = Counter[str]()
    for event in profile.events:
        if not event.place.is_unknown:
            key = event.handle if event.handle >= 0 else None
            times_ns[node_id(event.place, event.name, key)] += event.end_ns - event.start_ns
    return _shaded("ms of a run", {name: {"value": ns / runs / NS_PER_MS} for name, ns in times_ns.items()})


def weight_sizes(sizes: Mapping[str, Size]) -> GraphNodeData:
    """The stored bytes of each tensor that a model holds, by its name."""
    return _shaded("stored bytes", {weight_id(name): {"value": size.stored} for name, size in sizes.items()})


def failure_counts(counts: Mapping[str, int]) -> GraphNodeData:
    """How many failures of a log are at each node."""
    return _shaded("failures", {name: {"value": many} for name, many in counts.items()})


def _known(operations: Iterable[ObservedOperation]) -> Iterator[tuple[str, ObservedOperation]]:
    """The operations of which it is known where they belong, each with the id of its node."""
    for operation in operations:
        if operation.key is not None or not operation.place.is_unknown:
            yield node_id(operation.place, operation.op, operation.key), operation


def _shaded(name: str, results: Mapping[str, NodeResult]) -> GraphNodeData:
    """Numbers in colours from white for the smallest to orange for the largest."""
    stops: list[ColourStop] = [{"stop": 0, "bgColor": WHITE}, {"stop": 1, "bgColor": ORANGE}]
    return {"name": name, "results": results, "gradient": stops}
