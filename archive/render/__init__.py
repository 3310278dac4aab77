"""Facts → text for a terminal, and JSON. Computes nothing and prints nothing.

Each command that shows more than lines has a module of its name here; ``making`` has the texts of ``split``,
``join``, ``restore``, ``shrink``, ``lite`` and ``convert``. They share ``as_json``, ``texts``,
``fitted_table``, and ``ci``, the findings as CI systems read them.
"""
