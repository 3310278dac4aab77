"""``debug-archive demo``: its steps, an archive, and the program that runs in stock PyTorch."""
