"""A method captured and tried: the public functions of a capture."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archive.effects.capture.entries import MOST_ENTRIES, Captured, Found, found_entries
from archive.effects.errors import CaptureError, ModelFailedError
from archive.effects.trial.child import UntriedError, in_child
from archive.effects.trial.trial import Capture, clock, runs, starts_of, try_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


UNFOLLOWED = "the module runs, but the capture cannot follow it: "


class UntriedWarning(RuntimeWarning):
    """A capture could not be tried; the message says why."""


def capture(module: Any, *example_inputs: Any, method: str = "forward") -> Captured:
    """Capture what a method of a module computes and changes, as one table, and try it.

    The module, its arguments, globals and everything else stay unchanged.

    Args:
        module: the module.
        example_inputs: arguments of the method. Guards are taken from them; an argument that is left out must
            be left out by later calls, too, or have its default.
        method: name of the method.

    Raises:
        CaptureError: the method cannot be captured, or needs several tables, or the capture behaves
            differently from the module; the error names the model's line.
    """
    (captured,) = untried(module, method, [example_inputs], 1, single=True).tried().captured
    return captured


def capture_entries(
    module: Any,
    calls: Sequence[tuple[Any, ...]],
    *,
    method: str = "forward",
    most: int = MOST_ENTRIES,
) -> tuple[Captured, ...]:
    """Capture a method as several tables, each with guards on what distinguishes it, and try them.

    Args:
        module: the module.
        calls: arguments of example calls, which are made in sequence. More entries are looked for with the
            same arguments: later calls, and other branches on numbers and lengths.
        method: name of the method.
        most: most entries. Further branches are left out, and a call that takes one fits no entry; but calls
            like the examples must stop showing new entries.

    Returns:
        The entries, in the order in which they were found; just one if the method needs no more. They share
        one initial state.

    Raises:
        CaptureError: the method cannot be captured, or not with this many entries, or the capture behaves
            differently from the module; the error names the model's line.
        ValueError: there is no call, or no entry is allowed.
    """
    return untried(module, method, calls, most).tried().captured


@dataclass(frozen=True, slots=True)
class Untried:
    """A capture that was not tried yet."""

    found: Found
    capture: Capture
    seconds: float

    def tried(self, *, stacklevel: int = 3) -> Found:
        """Try it."""
        try:
            try_out(self.capture, self.seconds)
        except UntriedError as error:
            warnings.warn(f"what was captured was not tried: {error}", UntriedWarning, stacklevel=stacklevel)
        return self.found

    def tried_with(self, also: Callable[[], Any], *, stacklevel: int) -> tuple[Any, int]:
        """Try it, and something else in the same child process; see ``try_out``.

        If one of them ends that process, each is tried again without the other.

        Args:
            also: the other trial; it returns plain data, as in JSON.

        Returns:
            What ``also`` returns, and how many of the first calls the module made: none if that is not known.
        """
        try:
            return try_out(self.capture, self.seconds, also)
        except UntriedError:
            self.tried(stacklevel=stacklevel + 1)
            return in_child(also), 0


def untried(
    module: Any,
    method: str,
    calls: Sequence[tuple[Any, ...]],
    most: int,
    *,
    single: bool = False,
) -> Untried:
    """Capture a method as ``capture_entries`` does, and leave the trial to the caller."""
    if not calls or most < 1:
        raise ValueError(f"expected calls and at least one entry, found {len(calls)} and {most}")
    before = clock()
    try:
        found = found_entries(module, method, calls, most, single=single)
    except ModelFailedError as error:
        if not runs(module, method, calls):
            raise
        raise CaptureError(f"{UNFOLLOWED}{error.message}", error.filename, error.line) from error
    starts = tuple(starts_of(calls, found.others))
    capture = Capture(module, method, found.attempts, found.initial, found.aliases, starts)
    return Untried(found, capture, clock() - before)
