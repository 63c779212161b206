"""Which nodes a pod can run on, by its constraints and the nodes' capacity. Pure."""
