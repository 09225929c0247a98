"""Readers of public measurements, as frames of the columns that the models know; ``docs/backtest.md`` lists the sets."""
