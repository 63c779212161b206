"""How many requests run at a time, and their order. Pure."""
