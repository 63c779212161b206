"""The mounts of this machine: their paths, specification, users and checks."""
