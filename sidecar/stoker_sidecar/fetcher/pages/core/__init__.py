"""Decisions about the page cache. Pure."""
