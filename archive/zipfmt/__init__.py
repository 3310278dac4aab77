"""The zip as PyTorch writes it: its headers, a checked reading of its directory, and its writer."""
