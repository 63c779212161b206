"""The keeper, PID 1 of the sidecar: holds the FUSE mounts, keeps the others alive. Standard library only."""
