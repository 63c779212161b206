"""Decisions of the agent. Pure."""
