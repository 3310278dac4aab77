"""The ground that all rooms stand on: errors, limits, strings and columns.

The one error, with its place (``errors``); what a hostile file may cost (``limits``, ``deadline``,
``spending``); strings as places in buffers (``strings``), columns (``columns``), JSON (``json_text``).
"""
