"""Plug-ins of this node."""
