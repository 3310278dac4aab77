r"""How PyTorch and Python print where something ran: patterns of texts; ``encode`` makes those of bytes.

    File "/home/ann/net.py", line 12, in forward     a frame of a traceback, perhaps without a function
        return self.fc(x)                            its lines of code
    /home/ann/net.py(12): forward                    a line of a Python stack, which traced operations have

Where colours, other quotes or a given name may stand between the words, a pattern is of its own: in
``failures/held_graphs``, ``failures/eval_frames`` and ``failures/log/beginnings``.
"""

from __future__ import annotations

import re

BEGINNING = 'File "'
NAME = r'[^"\n\0]++'
FILE = rf'File "(?P<file>{NAME})"'
"""A file within a text. From one place a search goes no further than to the next quote."""
ANY_FILE = r'File "(?P<file>[^"\n\0]*+)"'
"""The same, or no name: PyTorch prints ``File "", line 5`` of a source without one."""
FILE_OF_LINE = r'File "(?P<file>[^\n]*)"'
"""The same in a line that nothing else stands in: the name may have quotes."""
LINE = r", line (?P<line>\d++)"
FUNCTION = r", in (?P<function>[^\n\0]*+)"
CODE = r"(?P<code>(?:\n {4}[^\n\0]*+)*+)"
"""The lines below a frame's heading."""
FRAME_IN_TEXT = re.compile((FILE + LINE + FUNCTION + CODE).encode())
HEADING = FILE_OF_LINE + r", line (?P<line>\d{1,9})(?:, in (?P<function>[^\n]*))?"
"""The first line of a frame, without its indentation."""

CALL_TEXT = r"(?P<file>[^\n]+)\((?P<line>[0-9]{1,18})\): (?P<function>[^\n]*)"
CALL, BYTES_CALL = re.compile(CALL_TEXT), re.compile(CALL_TEXT.encode())
"""A line of a Python stack."""
