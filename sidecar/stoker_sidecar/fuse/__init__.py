"""The FUSE server process: answers the kernel for one mounted version."""
