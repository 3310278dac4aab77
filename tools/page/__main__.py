"""Make ``archive/page/bundle`` of ``tools/page/src``, or compare them: ``python -m tools.page [--check]``.

``--check`` also lists the sources that are not as ``npm run format`` writes them.

Node and npm are needed, and once the network: the packages of ``package-lock.json`` come by npm, which checks
their digests. What is made is committed, so that neither users nor other tests need Node.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
INSTALLED = HERE / "node_modules" / ".package-lock.json"
"""Written by npm when it has installed everything."""


def run(program: str, *arguments: str) -> int:
    """The status of a program that is found on the PATH.

    Raises:
        SystemExit: it is not there.
    """
    path = shutil.which(program)
    if path is None:
        sys.exit(f"tools.page: {program} is not here; node and npm make the page's script")
    return subprocess.run([path, *arguments], cwd=HERE, check=False).returncode  # noqa: S603 - on the PATH, as users' own


def main(arguments: list[str]) -> int:
    """Install the packages of the lock file unless they are there; make or compare the bundle."""
    lock = HERE / "package-lock.json"
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
        status = run("npm", "ci", "--no-audit", "--no-fund", "--silent")
        if status:
            return status
    return run("npm", "run", "--silent", "check" if "--check" in arguments else "build")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
