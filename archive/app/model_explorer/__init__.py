"""A model's operators as a graph for Model Explorer: its extension of this name.

    model-explorer model.ptl --extensions=archive.app.model_explorer

In: an archive; nothing runs, and PyTorch is not needed. Out: a graph for each method or program
(``drawing``). ``graph`` says what its nodes are; ``code_flow`` follows generated code for archives without
debug handles, ``lite_flow`` the lite interpreter's instructions, ``program_flow`` exported programs;
``failing`` counts a log's failures at the nodes. ``main``, which Model Explorer asks for, is the only module
that needs it.
"""
