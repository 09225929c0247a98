"""How right models are: protocols, scores and their uncertainty, on frames. Pure; ``docs/backtest.md`` explains."""
