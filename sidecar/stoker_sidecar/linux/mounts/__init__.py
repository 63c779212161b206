"""Mounts: the system calls, the mount table, FUSE, overlays, and a pod's view of them."""
