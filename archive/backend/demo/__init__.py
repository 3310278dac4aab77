"""The backend ``backend_with_compiler_demo``: additions and subtractions, as in PyTorch's own example."""
