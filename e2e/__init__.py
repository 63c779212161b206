"""End to end: the cluster harness and the stories told on it."""
