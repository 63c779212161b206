"""A simulated cluster of thousands of nodes: a real control plane with played sidecars."""
