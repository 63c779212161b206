"""Recommendations: what phase, rules and named sets say, as values for knobs. Standard library only."""
