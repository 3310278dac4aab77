"""The attacks that still succeed, and how. Whoever mends one removes its line: the test fails until then."""

from __future__ import annotations

NOT_YET: dict[str, str] = {}
