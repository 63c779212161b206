"""The worker process: fetches pieces from the object store to the disk."""
