"""What a model gets for ``os``, ``shutil`` and ``subprocess``: what changes something outside is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

CODE = (FunctionType, BuiltinFunctionType, type)
CHANGING = {
    os: frozenset(
        [
            "chdir",
            "chmod",
            "chown",
            "kill",
            "link",
            "makedirs",
            "mkdir",
            "open",
            "popen",
            "putenv",
            "remove",
            "removedirs",
            "rename",
            "renames",
            "replace",
            "rmdir",
            "symlink",
            "system",
            "truncate",
            "umask",
            "unlink",
            "unsetenv",
            "utime",
            "write",
        ]
    ),
    shutil: frozenset(
        ["chown", "copy", "copy2", "copyfile", "copymode", "copystat", "copytree", "move", "rmtree"]
    ),
    subprocess: frozenset(
        ["Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run"]
    ),
}
"""Functions that change something, by their module."""
TELLING = {
    os: frozenset(
        [
            "cpu_count",
            "getcwd",
            "getenv",
            "getloadavg",
            "getlogin",
            "getpid",
            "getppid",
            "getuid",
            "stat",
            "uname",
            "urandom",
        ]
    )
}
"""Functions that tell of this process and machine, by their module."""
SETTING = frozenset(["__ior__", "clear", "pop", "popitem", "setdefault", "update"])
"""Methods by which ``os.environ`` is set."""
OUTSIDE = "what it does outside the model would be lost"
UNGUARDED = "what it tells is of this process, and no guard looks at it"


class SystemModule:
    """The proxy of one of these modules.

    Args:
        module: the real one.
        refuse: gives up, naming the model's line.
    """

    def __init__(self, module: ModuleType, refuse: Callable[[str], Any]) -> None:
        self._module, self._refuse = module, refuse

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        reason = _reason(self._module, name)
        if reason:
            self._refuse(f"{self._module.__name__}.{name}: {reason}")
        found = getattr(self._module, name)
        return Environment(self._refuse) if found is os.environ else found


class Environment:
    """The proxy of ``os.environ``: another process has another one.

    Args:
        refuse: gives up, naming the model's line.
    """

    def __init__(self, refuse: Callable[[str], Any]) -> None:
        self._refuse = refuse

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return self._set() if name in SETTING else self._read()

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        return self._read()

    def __contains__(self, key: object) -> bool:
        return bool(self._read())

    def __iter__(self) -> Any:  # noqa: ANN401
        return self._read()

    def __len__(self) -> int:
        return int(self._read())

    def __setitem__(self, key: str, value: str) -> None:
        self._set()

    def __delitem__(self, key: str) -> None:
        self._set()

    def __ior__(self, other: object) -> Any:  # noqa: ANN401
        return self._set()

    def _set(self) -> Any:  # noqa: ANN401
        return self._refuse(f"os.environ that is set: {OUTSIDE}")

    def _read(self) -> Any:  # noqa: ANN401
        return self._refuse(f"os.environ: {UNGUARDED}")


def _reason(module: ModuleType, name: str) -> str:
    """Why a function of a module is refused; "" if it is not."""
    return OUTSIDE if name in CHANGING[module] else UNGUARDED if name in TELLING.get(module, ()) else ""


def system_proxy(value: Any, refuse: Callable[[str], Any]) -> Any:  # noqa: ANN401
    """What the model gets for one of these modules, ``os.environ`` or a function; None for other values."""
    if value is os.environ:
        return Environment(refuse)
    for module in CHANGING:
        if value is module:
            return SystemModule(module, refuse)
        own = value.__name__ if isinstance(value, CODE) else ""
        reason = _reason(module, own)
        if reason and value is getattr(module, own, None):
            return lambda *_, **__: refuse(f"{module.__name__}.{own}: {reason}")
    return None
