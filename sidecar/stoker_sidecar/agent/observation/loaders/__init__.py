"""Detects consumers of data loaders that wait for data."""
