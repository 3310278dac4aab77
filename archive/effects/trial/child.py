"""Runs a function in a child process, a fork of this one: whatever it changes, nothing changes here."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60.0
"""How long a child may take by default."""
BLOCK = 1 << 16
STREAMS = (0, 1, 2)


class UntriedError(Exception):
    """Nothing can be tried here; the message says why."""


def in_child(function: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """The result of a function that a child process calls; the result is plain data, as in JSON."""
    reason = _impossible()
    if reason:
        raise UntriedError(reason)
    reading, writing = os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns if there are threads
            child = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise UntriedError(f"no child process can be made: {error}") from error
    if not child:
        os.close(reading)
        _run(function, writing)
    os.close(writing)
    try:
        data = _read(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)  # it has nothing more to do
        with suppress(ChildProcessError):  # where the process doesn't wait for children
            os.waitpid(child, 0)
    if not data:
        raise UntriedError(f"the child process gave no result within {seconds:.0f} s, or was ended")
    said, result = json.loads(data)
    if said:
        raise UntriedError(said)
    return result


def _impossible() -> str:
    """Why there can be no child process that runs PyTorch; "" if there can."""
    if not hasattr(os, "fork") or sys.platform == "darwin":
        return f"a copy of this process, which a trial needs, is not to be had on {sys.platform}"
    if torch.cuda.is_initialized():
        return "CUDA, which this process uses, does not work in a copy of it"
    return ""


def _run(function: Callable[[], Any], writing: int) -> None:
    """Call the function, in the child; it never returns."""
    try:
        gc.disable()  # it would touch, and so copy, everything that both processes share
        null = os.open(os.devnull, os.O_RDWR)
        for stream in STREAMS:
            os.dup2(null, stream)
        torch.set_num_threads(1)  # threads of the other process don't exist here
        try:
            data = json.dumps(["", function()])
        except UntriedError as error:
            data = json.dumps([str(error), None])
        except Exception as error:  # noqa: BLE001 (whatever it is, it ends here)
            data = json.dumps([f"the trial itself fails: {type(error).__name__}: {error}", None])
        left = data.encode()
        while left:
            left = left[os.write(writing, left) :]
    finally:
        os._exit(0)


def _read(reading: int, until: float) -> bytes:
    """Everything that a child writes; nothing if it takes too long."""
    blocks: list[bytes] = []
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return b""
        block = os.read(reading, BLOCK)
        if not block:
            return b"".join(blocks)
        blocks.append(block)
