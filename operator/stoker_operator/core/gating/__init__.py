"""Decide when a gated pod is released, and to which nodes. Pure."""
