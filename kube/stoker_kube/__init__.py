"""An asynchronous client of the Kubernetes API for raw objects, used by operator, sidecar and CLI."""
