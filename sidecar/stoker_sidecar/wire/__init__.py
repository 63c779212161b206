"""The protocols between the sidecar's processes: messages, heartbeats, zygotes' orders."""
