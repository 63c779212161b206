"""Downloads from other nodes."""
