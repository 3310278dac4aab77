"""Values by line: what each operation of a model computed, and where two forms of one model part.

``observed`` is a run: its operations in their order, each at its place in the model's source, with a summary
of each result. ``pairing`` finds the operations of two runs that compute the same value of the model, and
``gaps`` has what a comparison of their values gives; ``flow`` is what operations take of each other, and
``extras`` finds those that only one run has. Nothing here needs PyTorch; ``archive.backend.values``
makes runs.
"""
