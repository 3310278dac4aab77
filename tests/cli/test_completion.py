"""Completion in real shells, which are set up as the page says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "terminal.md"
SECONDS = 60
"""After which a shell counts as stuck: zsh waits for what it is to show."""

# COMP_WORDS and the rest are what bash itself sets for the function when a user presses the key.
BASH = """
{setup}
COMP_WORDS=({line}) COMP_CWORD={last}
[ {last} -lt ${{#COMP_WORDS[@]}} ] || COMP_WORDS+=('')
_debug_archive_completion debug-archive
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
FISH = """
{setup}
string replace --regex '\\t.*' '' -- (complete --do-complete {quoted}); true
"""
# A second zsh on a terminal of its own: completion belongs to its line editor.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -i
zpty -r shell shown '*READY>*'
zpty -n -w shell {quoted}$'\\t'
zpty -r shell shown '*'{expected}'*'
print -r -- $shown
"""


def setup(shell: str) -> str:
    """What the page tells users of a shell to write into its file."""
    found = re.search(rf"^For {shell}.*?:\n\n((?:    .*\n)+)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert found
    return re.sub("^    ", "", found[1], flags=re.MULTILINE)


def completed(shell: str, line: str, expected: str, folder: Path) -> str:
    """What a shell shows for a line that is completed, in a folder of its own."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell}")
    command = folder / "bin" / "debug-archive"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom archive.cli import main\n\nmain()\n")
    command.chmod(0o755)
    (folder / ".zshrc").write_text(f"PS1='READY>'\n{setup('zsh')}")
    script = {"bash": BASH, "fish": FISH, "zsh": ZSH}[shell].format(
        setup=setup(shell),
        line=line,
        last=line.count(" "),
        quoted=shlex.quote(line),
        expected=shlex.quote(expected),
    )
    env = {"PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "xterm"}
    done = subprocess.run(
        [program, "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert not done.stderr
    return done.stdout


LINES = {
    "debug-archive symb": "symbolicate",
    "debug-archive split --layo": "--layout",
    "debug-archive sizes --format spee": "speedscope",
    "debug-archive inspect mod": "model.ptl",
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_what_the_page_says(shell: str, line: str, tmp_path: Path) -> None:
    expected = LINES[line]
    if shell == "bash" and expected == "model.ptl":
        pytest.skip("bash completes files at a terminal alone")
    (tmp_path / "model.ptl").write_bytes(b"")
    shown = completed(shell, line, expected, tmp_path)
    if shell == "zsh":
        assert expected in shown
    else:
        assert shown.splitlines() == [expected]
