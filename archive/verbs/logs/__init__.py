"""A log in which PyTorch failed without debug records -> the log as it would be with them.

- The lite interpreter's line ``Debug info for handle(s): debug_handles:{126}, was not found.`` gives way to
  the module hierarchy and traceback of these handles; ``handles`` finds out which they are.
- TorchScript's traceback over ``code/__torch__/….py`` becomes the one of the serialized code, and that of
  the original code follows; see ``tracebacks``.

All other bytes pass through as they are, and so do failures that the archive cannot explain. Where a logger
put a prefix before each line (``11-21 04:05:11.123  1234  5678 E pytorch: ``: the same on all of them, but
for digits), new lines get that of their neighbour.
"""

from archive.verbs.logs.explainer import Explainer, explain
from archive.verbs.logs.handles import resolve_handles

__all__ = ["Explainer", "explain", "resolve_handles"]
