"""``debug-archive demo``: the steps, and the program that stock PyTorch runs in a process of its own."""
