"""Requests to the source: workers, pipeline and rate limits."""
