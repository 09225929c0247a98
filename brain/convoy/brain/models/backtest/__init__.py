"""How right the models are: protocols, scores and their uncertainty, on frames. Pure; ``docs/backtest.md`` explains."""
