"""A method's TorchScript graph, followed into all calls: operations, each with its place and call stack."""
