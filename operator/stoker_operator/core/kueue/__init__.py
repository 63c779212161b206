"""Answers to Kueue's admission checks. Pure."""
