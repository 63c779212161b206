"""Writes of objects: one writer with a budget of requests."""
