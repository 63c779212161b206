"""Overlay mounts of versions, and their metadata layers."""
