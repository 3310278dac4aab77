"""What all rooms build on: errors, limits, strings and columns.

The one error, with its place (``errors``); bounds on hostile files (``limits``, ``deadline``, ``spending``);
strings as places in buffers (``strings``), columns (``columns``), JSON (``json_text``).
"""
