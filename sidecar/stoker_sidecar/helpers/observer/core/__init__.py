"""The observer's schedule of looks and rests. Pure."""
