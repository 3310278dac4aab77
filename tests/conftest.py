"""How hypothesis draws: the same examples in every run, unless new ones are asked for.

``make test`` gives one verdict on one state of the code. To look for what nobody has met yet:

    pytest --hypothesis-profile=explore
"""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("repeatable")
