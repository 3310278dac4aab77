"""Times and memory of runs, by module, line and operator of the model; without PyTorch.

In: a ``Recording`` of what ran (``timeline``), and the place in the model of each operation (``places``).
Out: a ``Profile``: tables as text, traces for Chrome and Perfetto, flame graphs for speedscope and
``flamegraph.pl`` (``stacks``). ``saved`` reads and compares profiles that were saved as JSON.
"""
