"""Shared parts of the stories: the installed cluster, its bucket, and short functions for user actions."""
