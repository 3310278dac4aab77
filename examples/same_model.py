"""Is it the same model? Digests say yes or no, a diff says what differs."""

from pathlib import Path
from tempfile import TemporaryDirectory

import archive

SOURCE = "fixtures/releases/torch-1.9.0/unicode.ptl"
with TemporaryDirectory() as folder:
    migrated = Path(folder, "latest.ptl")
    archive.migrate(SOURCE, migrated, to="latest")
    print("digests equal:", archive.digest(SOURCE).value == archive.digest(migrated).value)
    found = archive.diff(SOURCE, migrated)
    print("same model:", found.same_model)
    for change in found.changes[:3]:
        print(f"{change.level}: {change.what} {change.name}")
