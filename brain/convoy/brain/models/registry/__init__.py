"""Model files and what is decided of them: bytes and back, promotion by back-test, cards. Pure: no I/O, no clock.

``convoy.brain.store.model_files`` keeps the files in a folder and their rows in the store.
"""

from convoy.brain.models.registry.backtest import BackTest, Contest, JobScore
from convoy.brain.models.registry.codec import ModelFile, decode, encode
from convoy.brain.models.registry.facts import Facts, Schema
from convoy.brain.models.registry.promotion import Promotion, Verdict, decide, decide_first

__all__ = [
    "BackTest",
    "Contest",
    "Facts",
    "JobScore",
    "ModelFile",
    "Promotion",
    "Schema",
    "Verdict",
    "decide",
    "decide_first",
    "decode",
    "encode",
]
