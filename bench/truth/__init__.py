"""Traces of real training with the truth that its code logs. Run `python -m bench.truth`."""
