"""Mounts of `stoker mount` on this machine."""
