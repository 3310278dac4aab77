"""A log in which PyTorch failed without debug records → the log as it would be with them.

- The lite interpreter's line ``Debug info for handle(s): debug_handles:{126}, was not found.`` is replaced by
  the module hierarchy and traceback of these handles. PyTorch prints several handles without a separator:
  ``handles`` splits them, and ``families`` rules out a handle whose operator cannot print the message above.
- TorchScript's traceback over ``code/__torch__/….py`` gets the heading "serialized code", and the traceback
  of the original code follows: see ``tracebacks``.

In a line of JSON, failures are explained inside of the strings: see ``json_lines``.

All other bytes pass through unchanged, and so do failures that the archive cannot explain. A logger may put a
prefix before each line (``11-21 04:05:11.123  1234  5678 E pytorch: ``), the same on all lines except for
digits. New lines get the prefix of the line beside them.
"""

from archive.verbs.logs.explainer import Explainer, explain
from archive.verbs.logs.handles import resolve_handles

__all__ = ["Explainer", "explain", "resolve_handles"]
