"""Any work on many items in a pool of processes; neither a crash nor Ctrl-C leaves anything behind."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

MAX_WORKERS = 61
"""Processes; Windows waits for no more."""
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
KILLED = "the process that worked on it was killed; is there enough memory?"
CLEAN_END = 2.0
"""Seconds that a worker has to end in the clean way, between two items or when its parent is gone."""
INTERRUPTED = 130
"""The exit status of a worker that a signal ended."""


class Lost(NamedTuple):
    """An item whose work never ended.

    Attributes:
        reason: what is known of it.
    """

    reason: str


def results(
    work: Callable[[ItemT], ResultT], items: Sequence[ItemT], workers: int
) -> Generator[tuple[int, ResultT | Lost]]:
    """Call a function for each item.

    Args:
        work: the function. It can be pickled, and catches its own errors.
        items: the items; they can be pickled.
        workers: the number of processes; 1 works in this one.

    Yields:
        The place of an item and its result, as they finish; :class:`Lost` where the item killed its process.
    """
    workers = min(workers, len(items), MAX_WORKERS)
    if workers == 1:
        yield from ((place, work(item)) for place, item in enumerate(items))
        return
    # A killed process breaks the pool. Each item that was left is tried alone, so that only the item that
    # kills its process is lost.
    places = range(len(items))
    for place in (yield from _pooled(work, items, places, workers)):
        if (yield from _pooled(work, items, [place], 1)):
            yield place, Lost(KILLED)


def in_order(results: Iterable[tuple[int, ResultT]]) -> Generator[ResultT]:
    """Results in the order of their places, each as soon as all before it are there."""
    early: dict[int, ResultT] = {}
    due = 0
    for place, result in results:
        early[place] = result
        while due in early:
            yield early.pop(due)
            due += 1


def _pooled(
    work: Callable[[ItemT], ResultT], items: Sequence[ItemT], places: Sequence[int], workers: int
) -> Generator[tuple[int, ResultT], None, list[int]]:
    """Do the work in other processes, and return the places that are left if one of them was killed."""
    from concurrent.futures import ProcessPoolExecutor, as_completed  # noqa: PLC0415 (one process does without)
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415 (the same)
    from multiprocessing import active_children, get_context  # noqa: PLC0415 (the same)

    left = []
    # Spawned: forks would copy the locks of numpy's and rich's threads.
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker, (work,)) as pool:
        try:
            with _without_interrupts():
                futures = {pool.submit(_in_worker, items[place]): place for place in places}
            for future in as_completed(futures):
                place = futures.pop(future)  # and with it the result, once it is used
                try:
                    yield place, future.result()
                except BrokenProcessPool:
                    left.append(place)
        except BaseException:
            for child in active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)
            raise
    return left


class _Given:
    """What a worker was given when it began: once, for it may be as large as all items together."""

    work: Callable[[Any], Any]


def _in_worker(item: ItemT) -> Any:  # noqa: ANN401 (the function's result)
    """Call the function in a worker process, which a signal ends once its work has cleaned up."""
    try:
        with _handled_by(_leave):
            if _Ending.came:
                os._exit(INTERRUPTED)  # the signal came between two items
            return _Given.work(item)
    finally:
        # The function has cleaned up; the pool would go on with the next item.
        if _Ending.came:
            os._exit(INTERRUPTED)


def _prepare_worker(work: Callable[[Any], Any]) -> None:
    """Prepare a worker: a signal ends it quietly, and so does the end of the process that started it."""
    _Given.work = work
    for one in ENDING_SIGNALS:
        signal.signal(one, _end_soon)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the end of the parent, however it ends, and then end this worker."""
    from multiprocessing import parent_process  # noqa: PLC0415 (the same)

    parent = parent_process()
    assert parent is not None  # noqa: S101 (a worker has one)
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)  # the clean way, which waits for calls into C code
    _end_late()


def _end_late() -> None:
    """End this worker, whatever it does, after the time for the clean way."""
    time.sleep(CLEAN_END)
    os._exit(INTERRUPTED)


class _Ending:
    """Whether a signal has come to this worker; later ones are ignored, lest they interrupt its clean-up.

    No ``threading.Event``: a second signal may come while the first one is handled, and would wait for ever
    for the lock that setting an event holds.
    """

    came = False


def _leave(*_: object) -> None:
    """End the work on an item; :func:`_in_worker` ends the worker."""
    if not _Ending.came:
        _Ending.came = True
        raise SystemExit(INTERRUPTED)


def _end_soon(*_: object) -> None:
    """End a worker between two items.

    An exception would do harm here: where a result is on its way to the parent, it cuts the result in two, or
    keeps the lock of the pipe that all workers write to, and they and the parent wait for ever.
    """
    if not _Ending.came:
        _Ending.came = True
        Thread(target=_end_late, daemon=True).start()


@contextmanager
def _handled_by(handler: Callable[..., None]) -> Iterator[None]:
    """Let a function handle the signals that end a worker."""
    before = {one: signal.signal(one, handler) for one in ENDING_SIGNALS}
    try:
        yield
    finally:
        for one, former in before.items():
            signal.signal(one, former)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C; processes that are started meanwhile inherit this."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
