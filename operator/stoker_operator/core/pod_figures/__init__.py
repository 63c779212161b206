"""Figures of pods for the aggregated API. Pure."""
