"""Servers with bounded connections."""
