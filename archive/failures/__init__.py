"""A log in which PyTorch failed without debug records → the log as it would be with them.

- The lite interpreter's line ``Debug info for handle(s): debug_handles:{126}, was not found.`` is replaced by
  the module hierarchy and traceback of these handles. PyTorch prints several handles without a separator:
  ``handles`` splits them, and ``families`` rules out a handle whose operator cannot print the message above.
- TorchScript's traceback over ``code/__torch__/….py`` gets the heading "serialized code", and the traceback
  of the original code follows: see ``tracebacks``.

Loggers and container runtimes put a prefix before each line, or make it a record of JSON. A failure's lines
are those of one *stream*, its process's part of the log, wherever lines of others stand between them: see
``streams``. New lines get what stands around the line beside them. A string of JSON that holds a whole
failure is explained inside: see ``explainer``.

All other bytes pass through unchanged, and so do failures that the archive cannot explain. A log in UTF-16
stays one, and one that gzip packed is unpacked (``unpacking``). What may be a whole failure is
written once the log pauses: see ``lines``.
"""
