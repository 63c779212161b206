"""API models of NodeCache: the contract between operator and nodes."""
