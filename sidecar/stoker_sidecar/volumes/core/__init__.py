"""Decisions about mounts. Pure."""
