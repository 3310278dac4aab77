"""Processes that do one piece of work at a time each, and are killed when its time is out.

A worker whose work ends in any other way than by a result is never used again: it is killed, whatever it
does, and another one takes its place. What goes through pipes is shorter than what a system writes at once
(4 KB): a process that is killed leaves no half of a message. Bodies and answers are files.
"""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import CancelledError as Cancelled
from contextlib import suppress
from math import ceil
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeVar

from pebble import ProcessExpired, ProcessPool

from archive.base.quick_dataclass import dataclass
from archive.server import work as worker
from archive.server.problems import HttpProblem
from archive.server.settings import SECONDS_OF_START, SECONDS_TO_NEXT_START

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from archive.server.settings import Settings

ResultT = TypeVar("ResultT")

DIED = "the process that worked on the request ended; it may have needed too much memory"


@dataclass(slots=True)
class Killed:
    """Workers that were killed.

    Attributes:
        late: since their time was out.
        left: since the client had left.
        died: by another process, or by the system.
    """

    late: int = 0
    left: int = 0
    died: int = 0


class _DiedError(Exception):
    """A worker died."""


class Workers:
    """Processes that work."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.waiting = self.busy = 0
        self.killed = Killed()
        self._free: asyncio.LifoQueue[ProcessPool] = asyncio.LifoQueue()
        self._pools: set[ProcessPool] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start all workers."""
        pools = [self._new() for _ in range(self._settings.workers)]
        await asyncio.gather(*map(self._ready, pools))

    async def _ready(self, pool: ProcessPool) -> None:
        """Wait until a worker can begin to work."""
        try:
            await self._result(pool, _nothing, (), SECONDS_OF_START)
        except _DiedError:
            raise HttpProblem(503, "a worker died while it started; may it use more memory?") from None
        self._free.put_nowait(pool)

    async def run(self, work: Callable[..., ResultT | HttpProblem], *arguments: object) -> ResultT:
        """Let a worker do a piece of work; if that dies, another one, once.

        Args:
            work: the work; to do it again does no harm.
        """
        try:
            result = await self._once(work, *arguments)
        except _DiedError:  # the worker may have died while idle, so try once more
            try:
                result = await self._once(work, *arguments)
            except _DiedError:
                raise HttpProblem(503, DIED) from None
        if isinstance(result, HttpProblem):
            raise result
        return result

    async def _once(self, work: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Let one worker do a piece of work."""
        if self.waiting >= self._settings.queue and self._free.empty():
            raise HttpProblem(503, f"{self.waiting} requests wait already; try again")
        self.waiting += 1
        try:
            async with asyncio.timeout(self._settings.seconds):
                pool = await self._free.get()
        except TimeoutError:
            raise HttpProblem(503, f"no worker was free in {self._settings.seconds:g} s; try again") from None
        finally:
            self.waiting -= 1
        self.busy += 1
        try:
            result = await self._result(pool, work, arguments, self._settings.seconds)
        except BaseException:
            self._begin(self._replace(pool))
            raise
        finally:
            self.busy -= 1
        self._free.put_nowait(pool)
        return result

    async def _replace(self, pool: ProcessPool) -> None:
        """Replace a worker that cannot be used any more."""
        self._end(pool)
        while True:
            pool = self._new()
            try:
                await self._ready(pool)
            except HttpProblem:
                self._end(pool)
                await asyncio.sleep(SECONDS_TO_NEXT_START)
            else:
                return

    async def _result(
        self, pool: ProcessPool, work: Callable[..., ResultT], arguments: tuple[object, ...], seconds: float
    ) -> ResultT:
        """The result of a piece of work."""
        try:
            async with asyncio.timeout(seconds):
                future = pool.schedule(_work, args=(ceil(seconds) + 1, work, arguments))
                return await asyncio.wrap_future(future)
        except TimeoutError:
            self.killed.late += 1
            why = f"the work took more than {seconds:g} s and was ended; send the log in parts"
            raise HttpProblem(504, why) from None
        except asyncio.CancelledError:
            self.killed.left += 1
            raise
        except (ProcessExpired, Cancelled, RuntimeError):
            self.killed.died += 1
            raise _DiedError from None

    def _new(self) -> ProcessPool:
        # Spawned: forks would copy the locks of this process's threads.
        arguments = (self._settings.store, self._settings.memory, self._settings.answer)
        pool = ProcessPool(1, initializer=_prepare, initargs=arguments, context=get_context("spawn"))
        self._pools.add(pool)
        pool.active  # noqa: B018 (starts the process now, not for the first request)
        return pool

    def _end(self, pool: ProcessPool) -> None:
        """Kill a worker, without waiting for its end."""
        self._pools.discard(pool)
        self._begin(asyncio.to_thread(_stopped, pool))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Begin something that nobody waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all workers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(asyncio.to_thread(_stopped, pool) for pool in self._pools))


def _nothing() -> None:
    """Do nothing: the answer says that the worker is ready."""


def _stopped(pool: ProcessPool) -> None:
    pool.stop()  # type: ignore[no-untyped-call]
    pool.join()


def _prepare(store: str, memory: int, answer: int) -> None:
    _bound_memory(memory)
    worker.prepare(store, answer)


def _bound_memory(memory: int) -> None:
    with suppress(ImportError):
        import resource  # noqa: PLC0415 (Windows doesn't have it)

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _work(seconds: int, work: Callable[..., ResultT], arguments: tuple[object, ...]) -> ResultT:
    """Do a piece of work. If the server is gone and cannot kill this process, an alarm of the system does."""
    if not hasattr(signal, "alarm"):
        return work(*arguments)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    try:
        return work(*arguments)
    finally:
        signal.alarm(0)
