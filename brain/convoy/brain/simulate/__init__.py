"""A cluster in a computer's time: what a policy would do with a workload, in completion times, use and restarts."""
