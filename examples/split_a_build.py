"""A build's whole folder: ship what is split, keep the companions, run again and do only what changed."""

from pathlib import Path
from tempfile import TemporaryDirectory

import archive

if __name__ == "__main__":  # processes of this machine import the program
    with TemporaryDirectory() as folder:
        shipped, companions = Path(folder, "shipped"), Path(folder, "companions")
        for run in ("first", "second"):
            made = archive.batch("split", "fixtures/releases/torch-2.13.0/*.ptl", shipped, companions)
            kinds = sorted({str(outcome.kind) for outcome in made})
            print(f"{run} run: {len(made)} files, {', '.join(kinds)}")
