"""The kernel: mounts, namespaces, processes and descriptors. Standard library only, knows nothing of Stoker's processes."""
