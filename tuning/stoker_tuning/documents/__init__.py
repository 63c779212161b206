"""Tuning documents: read from YAML or JSON, checked, and made the plain rules that the rest works with."""
