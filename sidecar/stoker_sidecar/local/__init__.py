"""What `stoker mount` runs: the same processes on one machine, without Kubernetes."""
