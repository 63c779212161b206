"""The kernel's page cache: prefetch into memory, and its limits."""
