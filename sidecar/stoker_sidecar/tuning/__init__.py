"""Recommendations become knobs: a library for both agents. It decides what the fetcher and mounts are told."""
