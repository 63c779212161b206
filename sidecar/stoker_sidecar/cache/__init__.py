"""The cache of one node: versions on disk, manifests, fetching."""
