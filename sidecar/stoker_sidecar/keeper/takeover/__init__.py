"""How one pod's keeper hands the node to the next pod's: a lock, a socket, messages."""
