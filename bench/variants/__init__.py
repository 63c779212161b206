"""The product's processes without one of their mechanisms each, to measure what that one is worth. Never for use."""
