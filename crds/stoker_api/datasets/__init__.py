"""API models of Dataset and DatasetClass."""
