"""The handover of a node from one pod's keeper to the next pod's: a lock, a socket, messages."""
