"""ETRecords among the fixtures, what ExecuTorch's Inspector says of them, and records made of them."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any

from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = FIXTURES / "executorch"
NAMES = sorted(path.stem for path in RECORDS.glob("*.etrecord"))
INSPECTED = sorted(path.name.partition(".")[0] for path in RECORDS.glob("*.inspector.json"))


def record(name: str) -> Path:
    """The file of an ETRecord."""
    return RECORDS / f"{name}.etrecord"


def inspected(name: str) -> list[dict[str, Any]]:
    """What the Inspector says of each instruction that ran."""
    return json.loads((RECORDS / f"{name}.inspector.json").read_text("utf-8"))  # type: ignore[no-any-return]


def log(name: str) -> bytes:
    """What the runtime printed of calls that failed."""
    return (RECORDS / f"{name}.log.txt").read_bytes()


def changed(name: str, **contents: bytes | None) -> bytes:
    """An ETRecord with other contents of some records; None takes one out."""
    out = BytesIO()
    with zipfile.ZipFile(record(name)) as source, zipfile.ZipFile(out, "w") as target:
        for one in source.namelist():
            content = contents.get(one, source.read(one))
            if content is not None:
                target.writestr(one, content)
    return out.getvalue()
