"""A pager for what is longer than the terminal."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import suppress

LESS = "FRX"
"""Settings of less, as git gives them: it ends where all fits, shows colours, and leaves the text there."""


def paged(text: str) -> bool:
    """Show a text in a pager, if it is longer than the terminal; whether that was done."""
    try:
        if text.count("\n") < os.get_terminal_size(sys.stdout.fileno()).lines:
            return False
        words = shlex.split(os.environ.get("PAGER", "less"))
        if not words or words == ["cat"]:
            return False
        env = {"LESS": LESS, **os.environ}
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, env=env)  # noqa: S603 (the person's own)
    except (OSError, ValueError):  # no such program, or no words of a shell
        return False
    while True:
        with suppress(KeyboardInterrupt):  # the pager has its own way with Ctrl-C
            pager.communicate(text.encode())
            return True
        text = ""
