"""Any work on many items: in a pool of processes, or on any ``concurrent.futures.Executor``.

Nothing is left over after a crash or Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import uuid4

from archive.base.errors import LONGEST_CAUSE, ArchiveError, shown
from archive.base.extras import how_to_install
from archive.base.signals import ENDING_SIGNALS, handled_by

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from concurrent.futures import Executor, Future

    from distributed import Client

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

MAX_WORKERS = 61
"""Processes; Windows waits for no more."""
KILLED = "the process that worked on it was killed; is there enough memory?"
CLEAN_END = 2.0
"""Seconds that a worker has to end in the clean way, between two items or when its parent is gone."""
INTERRUPTED = 130
"""The exit status of a worker that a signal ended."""
OUTSTANDING = 1_000
"""Items that an executor has at a time; more would lie in its memory, and in this process's."""
GIVEN = 8
"""Items for each worker that a pool has at a time, for the same reason. If one of them kills a worker, all
are tried again, each by itself."""
TRIES = 3
"""How often an item is tried whose worker is lost."""


class Lost(NamedTuple):
    """An item whose work never ended."""

    reason: str


def in_order(results: Iterable[tuple[int, ResultT]]) -> Generator[ResultT]:
    """Results in the order of their places, each as soon as all before it are there."""
    early: dict[int, ResultT] = {}
    due = 0
    for place, result in results:
        early[place] = result
        while due in early:
            yield early.pop(due)
            due += 1


# --- processes of this machine


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
    if workers <= 1:  # 0 of no items
        yield from ((place, work(item)) for place, item in enumerate(items))
        return
    # A killed process breaks the pool. Each item that it was given is tried by itself, so that only the item
    # that kills its process is lost; another pool goes on with the others.
    places = iter(range(len(items)))
    while left := (yield from _pooled(work, items, places, workers)):
        for place in left:
            if (yield from _pooled(work, items, iter([place]), 1)):
                yield place, Lost(KILLED)


def _pooled(
    work: Callable[[ItemT], ResultT], items: Sequence[ItemT], places: Iterator[int], workers: int
) -> Generator[tuple[int, ResultT], None, list[int]]:
    """Do the work in other processes, and return the places that were begun if one of them was killed."""
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 (one process does without)
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415 (the same)
    from multiprocessing import active_children, get_context  # noqa: PLC0415 (the same)

    left: list[int] = []
    ended: SimpleQueue[Future[ResultT]] = SimpleQueue()
    running: dict[Future[ResultT], int] = {}

    def submit(count: int) -> None:
        for place in islice(places, count):
            try:
                future = pool.submit(_in_worker, items[place])
            except BrokenProcessPool:
                left.append(place)
                return
            running[future] = place
            future.add_done_callback(ended.put)

    # Spawned: forks would copy the locks of numpy's and rich's threads.
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker, (work,)) as pool:
        try:
            with handled_by(signal.SIG_IGN, [signal.SIGINT]):  # processes that are started inherit this
                submit(GIVEN * workers)
            while running:
                future = ended.get()
                place = running.pop(future)  # and with it the result, once it is used
                try:
                    yield place, future.result()
                except BrokenProcessPool:
                    left.append(place)
                del future
                if not left:
                    submit(1)
        except BaseException:
            for child in active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)
            raise
    return left


class _Given:
    """What a worker was given when it began: once, since it may be as large as all items together."""

    work: Callable[[Any], Any]


def _in_worker(item: ItemT) -> Any:  # noqa: ANN401 (the function's result)
    """Call the function in a worker process, which a signal ends once its work has cleaned up."""
    try:
        with handled_by(_leave, ENDING_SIGNALS):
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
    for number in ENDING_SIGNALS:
        signal.signal(number, _end_soon)
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
    """Whether a signal has come to this worker; later ones do not interrupt its clean-up.

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


# --- executors


def results_by(
    executor: Executor, work: Callable[[ItemT], ResultT], items: Sequence[ItemT]
) -> Generator[tuple[int, ResultT | Lost]]:
    """Call a function for each item, wherever the executor does that.

    Args:
        executor: it stays open.
        work: the function. It can be pickled, and catches its own errors.
        items: the items; they can be pickled.

    Yields:
        The place of an item and its result, as they finish; :class:`Lost` where no worker came to its end.

    Raises:
        Exception: the executor's own, where it is gone.
    """
    from concurrent.futures import CancelledError  # noqa: PLC0415 (as above)

    ended: SimpleQueue[Future[ResultT]] = SimpleQueue()
    running: dict[Future[ResultT], int] = {}
    tried = [0] * len(items)
    waiting = iter(range(len(items)))
    outage: Exception | None = None

    def submit(places: Iterable[int]) -> None:
        nonlocal outage
        for place in places:
            tried[place] += 1
            try:
                future = _submitted(executor, work, items[place])
            except Exception as error:  # noqa: BLE001 (it is raised once what came to its end is noted)
                outage = error
                return
            running[future] = place
            future.add_done_callback(ended.put)

    try:
        submit(islice(waiting, OUTSTANDING))
        while running and outage is None:
            future = ended.get()
            place = running.pop(future)
            error = CancelledError("cancelled") if future.cancelled() else future.exception()
            if error is not None and tried[place] < TRIES:
                submit([place])
                continue
            submit(islice(waiting, 1))
            if error is None:
                yield place, future.result()
            else:
                cause = f"{type(error).__name__}: {shown(str(error), LONGEST_CAUSE)}"
                yield place, Lost(f"no worker brought it to its end: {cause}")
        if outage is not None:
            while not ended.empty():
                future = ended.get()
                if not future.cancelled() and future.exception() is None:
                    yield running[future], future.result()
            raise outage
    finally:
        for future in () if outage is not None else running:  # an executor that is gone can cancel nothing
            future.cancel()


def _submitted(executor: Executor, work: Callable[[ItemT], ResultT], item: ItemT) -> Future[ResultT]:
    """The future of a call; one that has failed where the executor takes no calls any more."""
    try:
        return executor.submit(_called, work, item, uuid4().hex)
    except RuntimeError as error:
        from concurrent.futures import Future  # noqa: PLC0415 (as above)

        future: Future[ResultT] = Future()
        future.set_exception(error)
        return future


def _called(work: Callable[[ItemT], ResultT], item: ItemT, _: str) -> ResultT:
    """Call the function. The last argument is new for each try: Dask gives the same call its old result."""
    return work(item)


SCHEDULER_GONE = (
    "the Dask scheduler is gone: run the same command again, which goes on from there, "
    "as the manifest has the files that are done"
)


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Let a logger say nothing: what it reports is raised, too."""
    import logging  # noqa: PLC0415 (few give work to others)

    of_library = logging.getLogger(logger)
    was = of_library.disabled
    of_library.disabled = True
    try:
        yield
    finally:
        of_library.disabled = was


def _cluster_executor(client: Client) -> Executor:
    """The executor of a client's cluster, each of whose calls ends.

    Dask's own forgets the calls whose results it was fetching when the scheduler died: who waits for one of
    them waits for ever.
    """
    from concurrent.futures import Executor, Future  # noqa: PLC0415 (as above)

    class ClusterExecutor(Executor):
        """Calls of the client as futures of the standard library."""

        def submit(self, call: Callable[..., ResultT], /, *arguments: Any, **named: Any) -> Future[ResultT]:  # noqa: ANN401
            """The future of a call."""
            remote = client.submit(call, *arguments, **named, pure=False)
            future: Future[ResultT] = Future()

            def end(_: object) -> None:
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(remote.result())
                    except BaseException as error:  # noqa: BLE001 (it is raised where the result is used)
                        future.set_exception(error)

            def cancel(_: object) -> None:
                if future.cancelled():
                    remote.cancel()  # type: ignore[no-untyped-call]

            remote.add_done_callback(end)  # type: ignore[no-untyped-call]
            future.add_done_callback(cancel)
            return future

    return ClusterExecutor()


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of a Dask cluster, for the time of the block."""
    try:
        from distributed import Client  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise ArchiveError(
            f"a Dask cluster needs the extra `fleet`: {how_to_install('fleet')} ({error})"
        ) from error
    try:
        client = Client(address)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ArchiveError("no Dask scheduler answers there", file=address) from error
    try:
        with _quiet("distributed.client"), client:
            yield _cluster_executor(client)
    except Exception as error:
        if client.status == "running":
            raise
        raise ArchiveError(SCHEDULER_GONE, file=address) from error
