"""Choose the nodes that hold a Dataset. Pure."""
