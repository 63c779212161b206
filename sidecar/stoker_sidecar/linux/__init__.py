"""The kernel: mounts, namespaces, processes, descriptors. Standard library only; independent of Stoker's processes."""
