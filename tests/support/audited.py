"""What runs while something is watched: audit events of code, processes and files, and changed namespaces."""

from __future__ import annotations

import builtins
import logging
import os
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.placeholders import Plain

if TYPE_CHECKING:
    from collections.abc import Iterator

STARTS = ("os.", "subprocess.", "shutil.", "socket.", "ctypes.", "pickle.", "marshal.", "code.", "function.")
"""Beginnings of the names of events by which code, processes and files are reached."""
QUIET = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")
NAMES = ("exec", "compile", "import", "open")
HELD: tuple[Any, ...] = (builtins, logging, os, sys, warnings, Plain, torch.Tensor, torch.nn.Module, torch)
"""Namespaces that nobody may change."""

_seen: list[list[tuple[str, object]]] = []


def _hook(event: str, args: tuple[object, ...]) -> None:
    if _seen and event not in QUIET and (event in NAMES or event.startswith(STARTS)):
        _seen[-1].append((event, args[0] if args else None))


sys.addaudithook(_hook)


def _namespaces() -> list[dict[str, int]]:
    return [{name: id(value) for name, value in vars(one).items()} for one in HELD]


@contextmanager
def watched() -> Iterator[list[tuple[str, object]]]:
    """The events of a ``with`` block; behind it, no namespace of ``HELD`` is another one."""
    before = _namespaces()
    events: list[tuple[str, object]] = []
    _seen.append(events)
    try:
        yield events
    finally:
        _seen.remove(events)
    assert _namespaces() == before
