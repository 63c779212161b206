"""Scratch: a private writable layer of one volume over the read-only files of its version."""
