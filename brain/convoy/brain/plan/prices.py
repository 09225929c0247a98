"""What a size costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

_GIB = 1024.0**3


@dataclass(frozen=True)
class Prices:
    """Prices of allotted resources per hour; a plan is made without them too, and says that its price is unknown."""

    per_core: float = math.nan
    per_gib: float = math.nan
    per_accelerator: float = 0.0
    currency: str = "USD"

    def per_hour(self, workers: int, cpu: float, memory: float, accelerators: float = 0.0) -> float:
        """Return the hourly price of ``workers`` of ``cpu`` cores and ``memory`` bytes each; NaN where unknown."""
        parts = [(cpu, self.per_core), (memory / _GIB, self.per_gib), (accelerators, self.per_accelerator)]
        priced = [amount * price for amount, price in parts if amount > 0 and not math.isnan(price)]
        return workers * sum(priced) if priced else math.nan

    @staticmethod
    def per_million_samples(per_hour: float, speed: float) -> float:
        """Return the price of a million samples at ``speed`` samples/s; NaN where either is unknown."""
        return per_hour / 3600.0 / speed * 1e6 if speed > 0 else math.nan
