"""The one way to the Kubernetes API server: a thin asynchronous adapter over raw objects, shared by operator, sidecar and CLI."""
