"""The Trace Event Format as a validator: what its documentation asks of a trace.

- A trace is a list of events (JSON Array Format), or an object with such a list as ``traceEvents`` (JSON
  Object Format), where ``displayTimeUnit``, if given, is ``ms`` or ``ns``.
- Every event has a phase ``ph``, a name, ``pid`` and ``tid``, and, but for metadata, a time ``ts`` in µs.
  ``args`` is an object. A counter may do without ``tid``, since counters belong to processes.
- ``X`` has a duration ``dur`` in µs that is not negative. The events of a thread nest: viewers read times as
  whole ns, so that is how they are compared. Ends ``E`` follow their begins ``B`` on the same thread.
- ``i`` has a scope ``s`` of ``g``, ``p`` or ``t``, thread where it is missing.
- ``C`` has one or more series in ``args``, each a number.
- ``M`` names processes and threads, or gives their labels and places.
- Asynchronous, flow, and object events have an ``id``.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

PHASES = frozenset("BEXiICbneSTpFstfPNODMVvRc()")
WITH_ID = frozenset("bneSTpFstfNOD")
METADATA: dict[str, tuple[str, type]] = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}

Event = Mapping[str, object]


def problems(trace: object) -> list[str]:
    """Whatever is wrong with a trace, in the order of its events; [] if it is valid."""
    events = trace.get("traceEvents") if isinstance(trace, dict) else trace
    if not isinstance(events, list):
        return ["trace: no list of events"]
    return [*_whole(trace), *_each(events)] or [*_nesting(events), *_pairs(events)]


def outer_ones_come_first(events: Sequence[Event]) -> bool:
    """Whether the events of each thread nest in the order they stand in: more than is asked for."""
    running: defaultdict[object, list[int]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = _ns(event["ts"])
            end, ends = start + _ns(event["dur"]), running[event["tid"]]
            while ends and ends[-1] <= start:
                ends.pop()
            if ends and ends[-1] < end:
                return False
            ends.append(end)
    return True


def _whole(trace: object) -> Iterator[str]:
    try:
        same = json.loads(json.dumps(trace, allow_nan=False)) == trace
    except (TypeError, ValueError) as error:
        yield f"trace: no JSON: {error}"
    else:
        if not same:
            yield "trace: changes when written as JSON and read again"
    if isinstance(trace, dict) and trace.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        yield f"trace: displayTimeUnit {trace['displayTimeUnit']!r}"


def _each(events: Sequence[object]) -> Iterator[str]:
    for index, event in enumerate(events):
        if not isinstance(event, dict):
            yield f"event {index}: no object"
        elif str(event.get("ph")) not in PHASES:
            yield f"event {index}: phase {event.get('ph')!r}"
        else:
            yield from (f"event {index} ({event['ph']}): {problem}" for problem in _event(event))


def _event(event: Event) -> Iterator[str]:
    phase = event["ph"]
    if not isinstance(event.get("name"), str) and not (phase == "E" and "name" not in event):
        yield "no name"
    for key in ("pid", "tid"):
        if not _is_int(event.get(key)) and not (phase == "C" and key == "tid" and key not in event):
            yield f"{key} is no integer"
    for key in ("ts", *["dur"] * (phase == "X")):
        if not _is_number(event.get(key)) and not (phase == "M" and key not in event):
            yield f"{key} is no finite number"
    yield from (f"{key} is no finite number" for key in ("tts", "tdur") if not _is_number(event.get(key, 0)))
    yield from (f"{key} is no text" for key in ("cat", "cname") if not isinstance(event.get(key, ""), str))
    args = event.get("args", {})
    if isinstance(args, dict):
        yield from _by_phase(event, args)
    else:
        yield "args is no object"


def _by_phase(event: Event, args: Event) -> Iterator[str]:
    """What events of one phase must have."""
    phase = event["ph"]
    if phase == "X" and _is_number(event.get("dur")) and event["dur"] < 0:  # type: ignore[operator]
        yield "negative dur"
    if phase in ("i", "I") and event.get("s", "t") not in ("g", "p", "t"):
        yield f"scope {event['s']!r}"
    if phase == "C" and not (args and all(map(_is_number, args.values()))):
        yield "series are no numbers"
    if phase in WITH_ID and not isinstance(event.get("id", event.get("id2")), str | int | dict):
        yield "no id"
    if phase == "M":
        key, kind = METADATA.get(str(event.get("name")), ("", object))
        if not key or type(args.get(key)) is not kind:
            yield f"metadata {event.get('name')!r} with {dict(args)!r}"


def _nesting(events: Sequence[Event]) -> Iterator[str]:
    """Complete events of a thread that overlap without one being inside the other."""
    threads: defaultdict[tuple[object, object], list[tuple[int, int, int]]] = defaultdict(list)
    for index, event in enumerate(events):
        if event["ph"] == "X":
            start = _ns(event["ts"])
            threads[event["pid"], event["tid"]].append((start, -start - _ns(event["dur"]), index))
    for spans in threads.values():
        running: list[tuple[int, int]] = []
        for start, minus_end, index in sorted(spans):
            while running and running[-1][0] <= start:
                running.pop()
            if running and running[-1][0] < -minus_end:
                yield f"event {index}: overlaps event {running[-1][1]}"
            running.append((-minus_end, index))


def _pairs(events: Sequence[Event]) -> Iterator[str]:
    """Begins without an end, and the other way round; in the order of time."""
    begun: defaultdict[tuple[object, object], list[int]] = defaultdict(list)
    pairs = [(index, event) for index, event in enumerate(events) if event["ph"] in ("B", "E")]
    for index, event in sorted(pairs, key=lambda pair: _ns(pair[1]["ts"])):
        thread = begun[event["pid"], event["tid"]]
        if event["ph"] == "B":
            thread.append(index)
        elif thread:
            begin = events[thread.pop()]
            if event.get("name", begin["name"]) != begin["name"]:
                yield f"event {index}: ends {begin['name']!r}"
        else:
            yield f"event {index}: ends nothing"
    yield from (f"event {index}: never ends" for thread in begun.values() for index in thread)


def _ns(micros: object) -> int:
    assert isinstance(micros, int | float)
    return round(micros * 1000)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def x(start: float, length: object = 1.0, **more: object) -> dict[str, object]:
    """A complete event, or with another phase, in µs."""
    return {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": start, "dur": length} | more


BROKEN: list[tuple[list[object], str]] = [
    ([x(0, -0.5)], "event 0 (X): negative dur"),
    ([x(0), x(math.nan)], "event 1 (X): ts is no finite number"),
    ([x(0, None)], "event 0 (X): dur is no finite number"),
    ([x(0, name=3)], "event 0 (X): no name"),
    ([x(0, pid="1")], "event 0 (X): pid is no integer"),
    ([x(0, args=[])], "event 0 (X): args is no object"),
    ([x(0, args={"a": {1}})], "trace: no JSON: Object of type set is not JSON serializable"),
    ([x(0, args={1: 2})], "trace: changes when written as JSON and read again"),
    ([x(0, cat=1)], "event 0 (X): cat is no text"),
    ([x(0, ph="Q")], "event 0: phase 'Q'"),
    (["X"], "event 0: no object"),
    ([x(0, 2), x(1, 2)], "event 1: overlaps event 0"),
    ([x(1, 2), x(0, 2)], "event 0: overlaps event 1"),
    ([x(0, 2), x(1, 1.001)], "event 1: overlaps event 0"),
    ([x(0, ph="i", s="x")], "event 0 (i): scope 'x'"),
    ([x(0, ph="C")], "event 0 (C): series are no numbers"),
    ([x(0, ph="C", args={"bytes": "1"})], "event 0 (C): series are no numbers"),
    ([x(0, ph="M", args={"name": "p"})], "event 0 (M): metadata 'a' with {'name': 'p'}"),
    ([x(0, ph="M", name="thread_name")], "event 0 (M): metadata 'thread_name' with {}"),
    ([x(0, ph="M", name=["p"])], "event 0 (M): no name"),
    ([x(0, ph=["X"])], "event 0: phase ['X']"),
    ([x(0, ph="b")], "event 0 (b): no id"),
    ([x(0, ph="B")], "event 0: never ends"),
    ([x(0, ph="E")], "event 0: ends nothing"),
    ([x(0, ph="B"), x(1, ph="E", name="b")], "event 1: ends 'a'"),
]
