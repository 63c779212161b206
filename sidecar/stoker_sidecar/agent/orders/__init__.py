"""Known orders of samples, and prefetch in these orders."""
