"""The debug information of a whole archive as columns, each fact once, whatever layouts its records have.

In: tables of source ranges, call stacks and handles. Out: columns and a pool of strings (``form.Facts``), and
from them the records again, to the byte (``records``), in any layout (``relayout``), with operations led to
other sources (``relocate``).
"""
