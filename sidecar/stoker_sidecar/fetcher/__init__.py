"""The fetcher process: what is here, what is wanted, and who brings it."""
