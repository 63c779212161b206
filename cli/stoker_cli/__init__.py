"""The command `stoker`: what is warm, what is not, and why a pod waits. Also `kubectl stoker`."""
