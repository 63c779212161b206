"""Downloads of one version: from the source onto the disk."""
