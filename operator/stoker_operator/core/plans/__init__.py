"""The NodeCache spec of each node. Pure."""
