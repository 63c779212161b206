"""Decisions of the fetcher. Pure."""
