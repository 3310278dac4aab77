"""The notebook of the docs: run its cells in a kernel, and write it with what they show, or compare.

    python -m tools.notebook            writes docs/how-to/notebook.ipynb
    python -m tools.notebook --check    status 1 if it is not as written

The kernel is started in the repository, by sockets in a folder, with no folder of the user's.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "how-to" / "notebook.ipynb"
CELLS = [
    """\
# In a notebook

Archives and what is found out about them show themselves as small tables: no scripts, no colours of
their own, and nothing that a file's texts could do. The kernel runs in the folder of the repository; nothing
here needs PyTorch.
""",
    """\
>>> import archive

>>> model = archive.open("fixtures/oracles/plain_stack.ptl")
>>> model
""",
    """\
A device's log names a number: `debug_handles:{1445}`. These are the lines of the model's source, the
innermost last:
""",
    """\
>>> failure = model.symbolicate(1445)
>>> failure
""",
    """\
PyTorch's own text is its `str()`:
""",
    """\
>>> print(failure)
""",
    """\
Where the bytes of the file go:
""",
    """\
>>> archive.sizes(model)
""",
    """\
What it reveals to strangers:
""",
    """\
>>> archive.leaks("fixtures/oracles/plain_stack.ptl")
""",
    """\
What differs between one model saved by two releases:
""",
    """\
>>> releases = "fixtures/releases/torch-{}/nested.ptl"
>>> archive.diff(releases.format("1.9.0"), releases.format("2.13.0"))
""",
    """\
A profile shows itself in the same way: `docs/how-to/profiles.md`. `str()` of each and its attributes are for
programs: `docs/reference/python.md`.
""",
]
"""Markdown, or code after ``>>> ``."""
PROMPT = ">>> "


def unrun() -> Any:  # noqa: ANN401 (nbformat has no annotations)
    """The notebook as its author wrote it."""
    from nbformat import v4  # noqa: PLC0415 (after the folders are set)

    cells = []
    for number, text in enumerate(CELLS):
        source = text.rstrip("\n")
        if source.startswith(PROMPT):
            lines = [line.removeprefix(PROMPT) for line in source.split("\n")]
            cells.append(v4.new_code_cell("\n".join(lines), id=f"cell-{number}"))
        else:
            cells.append(v4.new_markdown_cell(source, id=f"cell-{number}"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def run() -> str:
    """The notebook with what its cells show, as text."""
    import nbformat  # noqa: PLC0415 (after the folders are set)
    from jupyter_client.manager import AsyncKernelManager  # noqa: PLC0415 (the same)
    from nbclient import NotebookClient  # noqa: PLC0415 (the same)

    notebook = unrun()
    manager = AsyncKernelManager(kernel_name="python3", transport="ipc")
    client = NotebookClient(
        notebook, km=manager, timeout=120, resources={"metadata": {"path": str(ROOT)}}, record_timing=False
    )
    client.execute()
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}  # without this Python's release
    nbformat.validate(notebook)
    text: str = nbformat.writes(notebook)
    return f"{text}\n"


def main() -> int:
    """Run the notebook, and write it or compare it."""
    with tempfile.TemporaryDirectory(prefix="nb-") as folder:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
            os.environ[name] = folder
        os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        text = run()
    if "--check" in sys.argv[1:]:
        same = FILE.exists() and FILE.read_text("utf-8") == text
        sys.stdout.write("" if same else f"{FILE.relative_to(ROOT)} is not what its cells show\n")
        return 0 if same else 1
    FILE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
