"""The same work on any ``concurrent.futures.Executor``: a cluster's, say."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from archive.base.errors import LONGEST_CAUSE, ArchiveError, shown
from archive.batches.pool import Lost

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

OUTSTANDING = 1_000
"""Items that an executor has at a time; more would lie in its memory, and in this process's."""
INSTALL = "pip install debug-archive[fleet]"
TRIES = 3
"""How often an item is tried whose worker is lost."""


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
    """
    ended: SimpleQueue[Future[ResultT]] = SimpleQueue()
    running: dict[Future[ResultT], int] = {}
    tried = [0] * len(items)
    waiting = iter(range(len(items)))

    def submit(places: Iterable[int]) -> None:
        for place in places:
            tried[place] += 1
            future = _submitted(executor, work, items[place])
            running[future] = place
            future.add_done_callback(ended.put)

    try:
        submit(islice(waiting, OUTSTANDING))
        while running:
            future = ended.get()
            place = running.pop(future)
            error = CancelledError("cancelled") if future.cancelled() else future.exception()
            if error is not None and tried[place] < TRIES:
                submit([place])
                continue
            submit(islice(waiting, 1))
            yield place, future.result() if error is None else Lost(_told(error))
    finally:
        for future in running:
            future.cancel()


def _submitted(executor: Executor, work: Callable[[ItemT], ResultT], item: ItemT) -> Future[ResultT]:
    """The future of a call; one that has failed where the executor takes no calls any more."""
    try:
        return executor.submit(_called, work, item, uuid4().hex)
    except RuntimeError as error:
        future: Future[ResultT] = Future()
        future.set_exception(error)
        return future


def _told(error: BaseException) -> str:
    """Why an item was lost."""
    return f"no worker brought it to its end: {type(error).__name__}: {shown(str(error), LONGEST_CAUSE)}"


def _called(work: Callable[[ItemT], ResultT], item: ItemT, _: str) -> ResultT:
    """Call the function. The last argument is new for each try: Dask gives the same call its old result."""
    return work(item)


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of a Dask cluster, for the time of the block.

    Args:
        address: of the scheduler: ``tcp://host:8786``.

    Raises:
        ArchiveError: the extra is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise ArchiveError(f"a Dask cluster needs the extra `fleet`: {INSTALL} ({error})") from error
    try:
        client = Client(address)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ArchiveError("no Dask scheduler answers there", file=address) from error
    with client:
        yield client.get_executor(pure=False)  # type: ignore[no-untyped-call]
