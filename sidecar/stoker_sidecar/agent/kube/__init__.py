"""The agent's access to Kubernetes: NodeCache, Secrets and its account."""
