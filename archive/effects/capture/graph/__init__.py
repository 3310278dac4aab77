"""The graph of a captured call: its inputs, nodes, numbers and guards; facts about code and PyTorch."""
