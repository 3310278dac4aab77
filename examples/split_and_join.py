"""Ship a model without its debug info, keep this in a companion, and put both together again, to the byte."""

from pathlib import Path
from tempfile import TemporaryDirectory

import archive

SOURCE = Path("fixtures/oracles/plain_stack.ptl")
with TemporaryDirectory() as folder:
    shipped, companion, joined = (Path(folder, name) for name in ("app.ptl", "app.ptdbg", "joined.ptl"))
    result = archive.split(SOURCE, shipped, companion)
    print(f"{result.size:,} bytes: {result.out_size:,} ship, {result.companion_size:,} stay here")
    archive.join(shipped, companion, joined)
    print("joined to the byte:", joined.read_bytes() == SOURCE.read_bytes())
