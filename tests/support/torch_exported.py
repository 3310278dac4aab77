"""PyTorch 2.13, asked whether it loads an exported program."""

from __future__ import annotations

import io
import traceback

from torch.export.pt2_archive._package import load_pt2

from tests.support.running_exported import registered


def refusal(data: bytes) -> str:
    """The traceback of loading an archive; "" where PyTorch loads it."""
    registered()
    try:
        load_pt2(io.BytesIO(data))
    except Exception:  # noqa: BLE001 (of whatever kind)
        return traceback.format_exc()
    return ""
