"""Serves cached files to peers."""
