"""This node's plan, and its way to the fetcher and the cache roots."""
