"""Frozen views of the cluster, as all decisions read them. Pure."""
