"""Many models at once: a stream of failures → each explained by its own model, or not at all.

In flow archives, companions and logs; out flow explained logs, and the failures grouped by their causes.
"""
