"""End to end: the cluster harness and its stories."""
