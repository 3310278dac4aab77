"""Facts → text for a terminal, and JSON. Computes nothing and prints nothing.

``as_json`` serves all facts; the text of each kind of facts has a module of its own. ``fitted_table`` is the
table that they share.
"""
