"""Processes that do one piece of work at a time each, and are killed when its time is out.

A worker whose work ends in any other way than by a result is never used again: it is killed, whatever it
does, and another one takes its place. What goes through pipes is shorter than what a system writes at once
(4 KB): a process that is killed leaves no half of a message. Bodies and answers are files.
"""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import CancelledError as Cancelled
from contextlib import suppress
from math import ceil
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from pebble import ProcessExpired, ProcessPool

from archive.base.quick_dataclass import dataclass
from archive.server import work as worker
from archive.server.problems import HttpProblem, Reason, busy
from archive.server.settings import SECONDS_OF_START, SECONDS_TO_NEXT_LOOK, SECONDS_TO_NEXT_START

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from archive.server.lines import Lines
    from archive.server.settings import Settings

ResultT = TypeVar("ResultT")

KILLED = 9
"""The signal that no process can take; Windows has no name for it."""
DIED_IDLE = "died while it was idle"
DIED = "the process that worked on the request ended; it may have needed too much memory"


@dataclass(slots=True)
class Killed:
    """Workers that were killed.

    Attributes:
        late: since their time was out.
        left: since the client had left.
        died: by another process, or by the system.
        ended: since the server ended, and waited no longer.
    """

    late: int = 0
    left: int = 0
    died: int = 0
    ended: int = 0


class _DiedError(Exception):
    """A worker died."""


class Workers:
    """Processes that work."""

    def __init__(self, settings: Settings, lines: Lines) -> None:
        self._settings = settings
        self._lines = lines
        self.waiting = self.busy = 0
        self.killed = Killed()
        self._free: asyncio.LifoQueue[ProcessPool] = asyncio.LifoQueue()
        self._pids: dict[ProcessPool, int] = {}
        self._ended: WeakSet[ProcessPool] = WeakSet()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False

    @property
    def pids(self) -> list[int]:
        """The processes of the workers that are ready, or work."""
        return [pid for pid in list(self._pids.values()) if pid]

    async def start(self) -> None:
        """Start all workers."""
        pools = [self._new() for _ in range(self._settings.workers)]
        await asyncio.gather(*map(self._ready, pools))
        self._begin(self._watch())

    async def _ready(self, pool: ProcessPool) -> None:
        """Wait until a worker can begin to work."""
        try:
            self._pids[pool] = await self._result(pool, os.getpid, (), SECONDS_OF_START)
        except _DiedError:
            why = "a worker died while it started; may it use more memory?"
            raise busy(Reason.WORKER, why) from None
        self._free.put_nowait(pool)

    async def _watch(self) -> None:
        """Replace workers that die while they are idle."""
        while True:
            await asyncio.sleep(SECONDS_TO_NEXT_LOOK)
            idle = [self._free.get_nowait() for _ in range(self._free.qsize())]
            for pool in reversed(idle):
                if pool.active:
                    self._free.put_nowait(pool)
                else:
                    self._note(pool, "died", DIED_IDLE)
                    self._begin(self._replace(pool))

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
                raise busy(Reason.WORKER, DIED) from None
        if isinstance(result, HttpProblem):
            raise result
        return result

    async def _once(self, work: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Let one worker do a piece of work."""
        if self.waiting >= self._settings.queue and self._free.empty():
            raise busy(Reason.QUEUE, f"{self.waiting} requests wait already; try again")
        self.waiting += 1
        try:
            async with asyncio.timeout(self._settings.seconds):
                pool = await self._free.get()
        except TimeoutError:
            why = f"no worker was free in {self._settings.seconds:g} s; try again"
            raise busy(Reason.WAIT, why) from None
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
        """Replace a worker that cannot be used any more, unless somebody else ends it already."""
        if pool in self._ended:
            return
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
            self._note(pool, "late", f"was killed: its work took more than {seconds:g} s")
            why = f"the work took more than {seconds:g} s and was ended; send the log in parts"
            raise HttpProblem(504, why) from None
        except asyncio.CancelledError:
            if not self._is_ending:
                self._note(pool, "left", "was killed: its client had left")
            elif self._pids[pool]:
                self._note(pool, "ended", "was killed: the server ended, and had waited for its work")
            raise
        except (ProcessExpired, Cancelled, RuntimeError) as error:
            self._note(pool, "died", _end_of(error))
            raise _DiedError from None

    def _note(self, pool: ProcessPool, reason: str, words: str) -> None:
        """Count a worker that was killed, and write a line about it."""
        setattr(self.killed, reason, getattr(self.killed, reason) + 1)
        pid = self._pids[pool]
        who = f"worker {pid}" if pid else "a worker that had not started yet"
        self._lines.write(f"workers killed ({reason})", f"{who} {words}")

    def _new(self) -> ProcessPool:
        # Spawned: forks would copy the locks of this process's threads.
        arguments = (self._settings.store, self._settings.memory, self._settings.answer)
        pool = ProcessPool(1, initializer=_prepare, initargs=arguments, context=get_context("spawn"))
        self._pids[pool] = 0
        pool.active  # noqa: B018 (starts the process now, not for the first request)
        return pool

    def _end(self, pool: ProcessPool) -> None:
        """Kill a worker, without waiting for its end."""
        self._pids.pop(pool, None)
        self._ended.add(pool)
        self._begin(asyncio.to_thread(_stopped, pool))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Begin something that nobody waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all workers."""
        self._is_ending = True
        for task in self._tasks:
            task.cancel()
        pools = list(self._pids)
        self._ended.update(pools)
        await asyncio.gather(*(asyncio.to_thread(_stopped, pool) for pool in pools))


def _end_of(error: BaseException) -> str:
    """How a worker died, as far as is known."""
    match error:
        case ProcessExpired(exitcode=code) if code < 0:
            why = "; systems do so where memory is short" if code == -KILLED else ""
            return f"died by {signal.Signals(-code).name} while it worked{why}"
        case ProcessExpired(exitcode=code):
            return f"ended with status {code} while it worked"
        case _:
            return DIED_IDLE


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
