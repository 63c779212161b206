"""Tuning documents: read from YAML or JSON, checked, and turned into plain rules."""
