"""What is mounted for pods on this node, and how it gets there. A library of the agent and of `stoker mount`."""
