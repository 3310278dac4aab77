"""What a file reveals of people and machines: ``leaks`` finds it, ``redact`` takes it out with proof.

Both read the same ``pieces`` of a file.
"""
