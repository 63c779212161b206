"""The worker process: brings one piece after the other from the object store to the disk."""
