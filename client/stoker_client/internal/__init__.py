"""Parts of the samplers and reports. Not for import by users."""
