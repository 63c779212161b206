"""The keeper, PID 1 of the sidecar: holds the FUSE mounts and supervises the other processes. Standard library only."""
