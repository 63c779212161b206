"""Groups of nodes that share one version, and their links. Pure."""
