"""What a method changes besides giving results: a table of effects, as facts, as a record, and as Python."""

NAME = "extra/effects.pkl"
"""The record; PyTorch hands it out as the extra file ``effects.pkl``."""
