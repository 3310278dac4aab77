"""Keep the README's output true: runs its ``console`` blocks and compares, or rewrites, what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)


def shown(block: str) -> str:
    """A block as it should be: its commands, each followed by what it prints."""
    commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{_output(command)}" for command in commands)


def _output(command: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(  # noqa: S602 (the README's own commands, as a reader types them)
        command, shell=True, cwd=ROOT, env={**os.environ, "PATH": path}, check=True, capture_output=True
    )
    output = done.stdout.decode()
    lines = [line.rstrip() for line in output.splitlines()]  # Markdown shows no blanks at ends of lines
    return "".join(f"{line}\n" for line in lines)


def rewritten(text: str) -> str:
    """The README with true output."""
    return BLOCK.sub(lambda match: shown(match[1]), text)


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text(encoding="utf-8")), encoding="utf-8")
