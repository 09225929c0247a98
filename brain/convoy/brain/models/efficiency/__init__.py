"""How much a sample of a larger batch is worth, from the noise of gradients, and goodput: speed times that worth."""

from convoy.brain.models.efficiency.gain import gain, log_efficiency
from convoy.brain.models.efficiency.goodput import GoodputModel
from convoy.brain.models.efficiency.model import EfficiencyModel

__all__ = ["EfficiencyModel", "GoodputModel", "gain", "log_efficiency"]
