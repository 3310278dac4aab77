"""Freeze companions of the current version as fixtures, for later versions to read.

    python -m tools.make_companions            write fixtures/companions/v2 and list it in MANIFEST.tsv
    python -m tools.make_companions FOLDER     write the same files elsewhere, to look at

What is frozen is never written again: files that exist stay as they are.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from archive.companion.layout import VERSION, CompanionProfile
from archive.rewrite.split import split
from tools import manifest

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FROZEN = FIXTURES / "companions" / f"v{VERSION}"
ARCHIVES = (
    "releases/torch-1.2.0/consts.pt",  # records that are kept as they were
    "releases/torch-1.8.0/nested.ptl",  # pair rows, module paths
    "releases/torch-1.9.0/nested.ptl",  # inline rows, call stacks of three elements
    "releases/torch-2.13.0/lowered-host.ptl",  # string tables, delegated source ranges
    "oracles/traced_stack_inline_ranges.ptl",  # Python stacks
    "exported/several.pt2",  # several programs, graphs inside of graphs
    "exported/shop_strict_decomposed.pt2",  # marks, functions, origins, ids
    "exported/noted.pt2",  # texts that are kept as they stand
    "compiled/profiled.pt2",  # a shared object, kernels, sources
)
"""The archives whose companions are frozen."""


def frozen_name(archive: str, profile: CompanionProfile) -> str:
    """``torch-1.8.0_nested.ptl.packed.ptdbg``, of the archive's path below the fixtures."""
    path = Path(archive)
    return f"{path.parent.name}_{path.name}.{profile.name.lower()}.ptdbg"


def source(archive: str) -> bytes:
    """An archive's bytes; some fixtures are compressed."""
    path = FIXTURES / archive
    return path.read_bytes() if path.exists() else lzma.decompress(Path(f"{path}.xz").read_bytes())


def write(folder: Path) -> list[Path]:
    """The companions that a split makes of the archives, in each profile, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for archive in ARCHIVES:
        for profile in CompanionProfile:
            target = folder / frozen_name(archive, profile)
            if target.exists():
                continue
            with TemporaryDirectory() as rest:
                split(source(archive), Path(rest) / "out.pt", target, profile=profile)
            made.append(target)
    return made


def main() -> int:
    """Run the command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FROZEN
    for path in write(folder):
        print(f"{path.stat().st_size:>8,}  {path.name}")
    if folder == FROZEN:
        (FIXTURES / manifest.NAME).write_text(manifest.to_table(manifest.rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
