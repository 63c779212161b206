"""Which node fetches which files, and which peers are asked. Pure."""
