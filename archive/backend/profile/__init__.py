"""Shows the times and memory of a run by module, line and operator of the model.

In: a :class:`~archive.backend.profile.timeline.Recording`, and what explains its debug handles. Out: tables
as text, traces for Chrome and Perfetto, flame graphs for speedscope and ``flamegraph.pl``.
"""
