"""Limits that a process sets on itself: Landlock, and the start of helpers for one question."""
