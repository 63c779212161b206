"""Decisions about downloads. Pure."""
