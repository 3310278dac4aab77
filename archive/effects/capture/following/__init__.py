"""Follows a model while it is captured: its functions, objects and values, calls of PyTorch."""
