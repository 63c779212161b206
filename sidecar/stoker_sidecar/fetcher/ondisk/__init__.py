"""A version on the disk: files, parts, inventory and repairs."""
