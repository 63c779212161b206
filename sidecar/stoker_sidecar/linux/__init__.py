"""The kernel: mounts, namespaces, processes, descriptors. Standard library only; knows no process of Stoker."""
