"""The debug information of a whole archive as columns, each fact once, whatever layouts its records have.

In: an archive's tables of source ranges, call stacks and handles, which ``builder`` brings into normal form.
Out: a ``form.NormalForm``, and from it the tables and the ``records`` again, to the byte. ``columns``
declares the columns, and ``check`` refuses columns that contradict one another.
"""
