"""`stoker mount`: the same processes on one machine, without Kubernetes."""
