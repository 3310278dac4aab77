"""The backend ``aten``: compiles methods to programs of PyTorch's own operators, and runs these.

In: a method's graph (``program``), or the text of a saved archive (``blob``). Out: the results of the method,
and on demand the time and memory of each operation by debug handle (``machine``).
"""
