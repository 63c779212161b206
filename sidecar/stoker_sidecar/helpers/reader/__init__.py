"""The reader: parses tenants' files (indexes, lists, paths, model files) for the agent, which is root (ADR 15)."""
