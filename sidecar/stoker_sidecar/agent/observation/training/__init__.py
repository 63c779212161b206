"""Phases, epochs and layouts of this node's workloads."""
