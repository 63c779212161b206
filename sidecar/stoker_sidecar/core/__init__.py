"""Decisions of the sidecar: pure, no I/O, no clock."""
