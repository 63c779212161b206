"""The agent process of one mount, without Kubernetes."""
