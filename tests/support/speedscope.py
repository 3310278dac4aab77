"""The speedscope file format as a validator: what its published schema and its importer ask of a file.

- The file has ``$schema``, ``shared.frames``, each with a name, and one or more profiles.
- An ``evented`` profile has events in the order of time, between ``startValue`` and ``endValue``. An event
  opens (``O``) or closes (``C``) a frame by its number; the frame that was opened last is closed first.
- A ``sampled`` profile has a stack of frames, outermost first, for each weight.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    Json = dict[str, Any]


UNITS = frozenset({"bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"})


def problems(file: Json) -> list[str]:
    """Whatever is wrong with a file; [] if it is valid."""
    assert json.loads(json.dumps(file, allow_nan=False)) == file
    found = [key for key in ("$schema", "shared", "profiles") if key not in file]
    frames = file["shared"]["frames"]
    found += [f"frame {frame}" for frame in frames if not isinstance(frame.get("name"), str)]
    found += [f"frame {frame}" for frame in frames if not frame.keys() <= {"name", "file", "line", "col"}]
    if not 0 <= file.get("activeProfileIndex", 0) < len(file["profiles"]):
        found.append("no active profile")
    for profile in file["profiles"]:
        if profile["unit"] not in UNITS or not isinstance(profile["name"], str):
            found.append(f"unit {profile['unit']}, name {profile['name']}")
        found += (_evented if profile["type"] == "evented" else _sampled)(profile, len(frames))
    return found


def _evented(profile: Json, frames: int) -> Iterator[str]:
    opened: list[int] = []
    last = profile["startValue"]
    for event in profile["events"]:
        if event["at"] < last:
            yield f"{event}: before {last}"
        if not 0 <= event["frame"] < frames:
            yield f"{event}: no frame"
        if event["type"] == "O":
            opened.append(event["frame"])
        elif not opened or opened.pop() != event["frame"]:
            yield f"{event}: not the one that was opened last"
        last = event["at"]
    if opened or last > profile["endValue"]:
        yield f"{opened} opened at the end"


def _sampled(profile: Json, frames: int) -> Iterator[str]:
    if len(profile["samples"]) != len(profile["weights"]):
        yield "a weight for each sample"
    if any(not 0 <= frame < frames for stack in profile["samples"] for frame in stack):
        yield "a sample without its frame"
    if profile["endValue"] - profile["startValue"] < sum(profile["weights"]):
        yield "weights beyond the end"


def times(profile: Json, frames: list[Json]) -> dict[tuple[str, ...], int]:
    """The self time of each stack of an ``evented`` profile, as viewers count it."""
    stack: list[str] = []
    found: dict[tuple[str, ...], int] = {}
    last = profile["startValue"]
    for event in profile["events"]:
        if stack and event["at"] > last:
            found[tuple(stack)] = found.get(tuple(stack), 0) + event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            stack.append(frames[event["frame"]]["name"])
        else:
            stack.pop()
    return found
