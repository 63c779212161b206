"""All Datasets of this node together."""
