"""Recommendations: values for knobs from rules, phases and named sets. Standard library only."""
