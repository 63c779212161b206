"""The checks of `stoker doctor`: decisions over what was read from the API server. Pure."""
