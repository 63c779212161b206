"""The processes of `stoker mount`: those of a node on one machine, without Kubernetes."""
