"""What was captured is tried before anything is returned: nothing about it is believed.

The captured form and the eager module start from the same state and get the same calls: the examples, the
examples again twice, and calls from each state in which guards of entries decide otherwise. Results, and all
state that can be reached, must be the same after each call. What differs is refused, at the first line of
the model that does something else.

The eager module changes itself, globals, its class, or whatever it likes. So a trial runs in a child process
(``child``), where real objects may change; here nothing does.
"""
