"""Requests to warm Datasets, and waiting for the result."""
