"""How hypothesis draws: the same examples in every run, unless new ones are asked for; and PyTorch's threads.

``make test`` gives one verdict on one state of the code. To look for what nobody has met yet:

    pytest --hypothesis-profile=explore
"""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("repeatable")

# Models here are small, and workers share the cores: more threads would wait for one another. Inherited.
os.environ.setdefault("OMP_NUM_THREADS", "1")
