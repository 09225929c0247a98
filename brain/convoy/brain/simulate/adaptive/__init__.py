"""How jobs that choose their own batch see themselves: a fitted model of their step time, and goodput."""
