"""Direct queries to the sidecars of nodes."""
