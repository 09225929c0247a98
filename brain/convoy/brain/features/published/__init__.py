"""Readers of public measurements, as frames of the columns that models know; ``docs/backtest.md`` lists them."""
