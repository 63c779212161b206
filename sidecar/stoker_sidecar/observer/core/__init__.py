"""When the observer looks and when it rests. Pure."""
