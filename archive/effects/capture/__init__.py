"""A call of an eager module becomes a graph and a table of what the call changes.

The modules from the highest to the lowest; each imports only from lower ones:

- ``capture``, ``entries``, ``attempt``, ``next_snapshot``: as many calls as are needed, one call, the state
  behind it; ``comparing``, ``other_arms``, ``original_values``: what entries have in common and what not;
- ``settled_hooks``, ``hook_recipes``, ``code_uses``: hooks that a call leaves behind, what their code does;
- ``finish``, ``bounds``, ``sharing``, ``initial``: a call's graph and table are completed;
- ``functions``, ``cached_functions``, ``objects``, ``attribute_views``, ``wrapping``, ``torch_calls``,
  ``autograd``, ``builtin``, ``sizes``: the parts that follow the model through functions, attributes,
  values, calls of PyTorch, builtins and metadata;
- ``proxies``, ``containers``, ``open_list``, ``open_deque``, ``tracked_dict``, ``tracked_set``,
  ``untouchable``: proxies of everything that a call can change; ``container_proxies``, ``container_types``,
  ``classes``: objects that derive from containers, Python's own types, and attributes of classes;
  ``proxy_bases``: what these share; ``module_hooks``, ``backward_hooks``, ``hook_copies``, ``hook_sets``:
  calls of modules that have hooks;
- ``open_part``, ``list_functions``, ``made_list``: new lists made of lists of unknown length, in the graph;
- ``call``: the state of one call, which all of these share; ``snapshot``: the values before it;
- ``graph_builder``, ``decisions``, ``inputs``, ``guards``, ``scalars``, ``python_numbers``, ``shape``: graph
  and guards;
- ``side_effects``, ``flattening``, ``flat_values``, ``reach``, ``pending``, ``variables``: the table of
  effects;
- ``interception``, ``outside``, ``kept_calls``: what reaches outside of the model;
- ``sites``, ``sources``, ``function_code``, ``operations``: facts about code and PyTorch.
"""
