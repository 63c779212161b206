"""Recommendations: values for knobs from rules and named sets. Standard library only."""
