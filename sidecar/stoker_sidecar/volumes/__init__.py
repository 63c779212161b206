"""The mounts for pods on this node. A library of the agent and of `stoker mount`."""
