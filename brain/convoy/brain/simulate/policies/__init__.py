"""Scheduling policies by their names on the command line; each has its file.

To add one, write a class with ``allocate`` and ``batch`` (``convoy.brain.simulate.policy.Policy``) in a file of its
own with a ``build(surroundings)``, and name it in ``POLICIES``.
"""

from __future__ import annotations

from convoy.brain.simulate.policies import convoy, dlrover, optimus, pollux, requested, sia, tiresias
from convoy.brain.simulate.policy import Builder

POLICIES: dict[str, Builder] = {
    "requested": requested.build,
    "tiresias": tiresias.build,
    "optimus-oracle": optimus.build,
    "pollux": pollux.build,
    "sia": sia.build,
    "dlrover": dlrover.build,
    "convoy": convoy.build,
    "convoy-oracle": convoy.build_oracle,
}
