"""Stop a model that reveals its builders, or publish what is left of it with proof."""

from pathlib import Path
from tempfile import TemporaryDirectory

import archive

SOURCE = "fixtures/oracles/plain_stack.ptl"
for finding in archive.leaks(SOURCE).counted():
    print(f"leak: {finding.kind}, {finding.count} times")
with TemporaryDirectory() as folder:
    public, private = Path(folder, "public.ptl"), Path(folder, "private.ptdbg")
    proof = archive.redact(SOURCE, public, private, preset="publish")
    print("left:", ", ".join([*map(str, proof.remaining), *proof.problems]) or "nothing")
    print("leaks now:", len(archive.leaks(public).counted()))
