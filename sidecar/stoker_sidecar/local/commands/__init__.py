"""The commands: mount, unmount, and drop the kernel's caches."""
