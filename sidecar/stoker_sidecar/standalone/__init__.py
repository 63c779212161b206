"""`stoker mount`: the data path of one machine, without Kubernetes."""
