"""The keeper, PID 1 of the sidecar: holds the FUSE mounts and keeps every other process alive. Standard library only."""
