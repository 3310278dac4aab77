"""A call of an eager module becomes a graph and a table of what the call changes.

From the highest to the lowest; each imports only from lower ones:

- ``entries``, ``next_states``, ``attempt``: as many calls as are needed, the states in which they take
  another branch, one call;
- ``settled_hooks``, ``finish``, ``initial``: the hooks that a call leaves in place, what completes its graph
  and its table, and the values before it;
- ``following/``: the parts that follow the model through its functions, builtins, objects and values, through
  calls of PyTorch, autograd and autocast, and to anything outside the model;
- ``proxies/``: proxies of everything that a call can change: modules and their hooks, objects, lists,
  dicts, sets, sizes of tensors; and lists of unknown length, in the graph;
- ``table/``: the state of one call, shared by all of these, and the table of its effects;
- ``graph/``: the graph and its guards, numbers in it, and facts about code and PyTorch.
"""
