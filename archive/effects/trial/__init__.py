"""A capture is tried before anything is returned: nothing about it is taken on trust.

The captured form and the eager module start from the same state and get the same calls: the examples, the
examples twice more, and calls from each state in which entries' guards lead to other branches. Results, and
all reachable state, must be the same after each call. Any difference is refused, at the first line of the
model that behaves differently.

The eager module may change itself, globals, its class, or anything else. So a trial runs in a child process
(``child``), where real objects may change; nothing changes here.
"""
