"""Freeze companions of the current version as fixtures, for later versions to read.

    python -m tools.make_companions            write fixtures/companions/v4 and list it in MANIFEST.tsv
    python -m tools.make_companions FOLDER     write the files of all versions elsewhere, to look at

What is frozen is never written again: files that exist stay as they are.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from archive.companion.layout import OLDEST, ORDERED, VERSION, CompanionLayout
from archive.rewrite.split import split
from tools import manifest

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FOLDER = FIXTURES / "companions"
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
"""The archives whose companions are frozen in version 2."""
BY_RULE = (
    "releases/torch-2.4.1/nested.ptl",  # rows by descending places
    "releases/torch-2.13.0/lowered-host.ptl",  # rows as a map that grew has them
)
"""Those whose call-stack maps have an order that a rule gives: version 3."""
QUOTING = (
    "releases/torch-2.13.0/frozen.ptl",
    "oracles/plain_stack.ptl",  # rows of the call-stack map in an order, too
)
"""Those whose texts are mostly source text of ``torch.nn``: version 4."""
CASES = {
    OLDEST: [(name, layout) for name in ARCHIVES for layout in CompanionLayout],
    ORDERED: [(name, CompanionLayout.PACKED) for name in BY_RULE],
    VERSION: [(name, CompanionLayout.PACKED) for name in QUOTING],
}
"""Archives and layouts of what is frozen in each version."""


def frozen_name(archive: str, layout: CompanionLayout) -> str:
    """``torch-1.8.0_nested.ptl.packed.ptdbg``, of the archive's path below the fixtures."""
    path = Path(archive)
    return f"{path.parent.name}_{path.name}.{layout.name.lower()}.ptdbg"


def source(archive: str) -> bytes:
    """An archive's bytes; some fixtures are compressed."""
    path = FIXTURES / archive
    return path.read_bytes() if path.exists() else lzma.decompress(Path(f"{path}.xz").read_bytes())


def write(folder: Path, version: int) -> list[Path]:
    """The companions that a split makes of the archives of a version, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for archive, layout in CASES[version]:
        target = folder / frozen_name(archive, layout)
        if target.exists():
            continue
        with TemporaryDirectory() as rest:
            split(source(archive), Path(rest) / "out.pt", target, layout=layout)
        made.append(target)
    return made


def main() -> int:
    """Run the command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for version in CASES:
        for path in write(folder / f"v{version}", version):
            print(f"{path.stat().st_size:>8,}  {path.name}")
    if folder == FOLDER:
        (FIXTURES / manifest.NAME).write_text(manifest.to_table(manifest.rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
