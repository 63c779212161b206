"""A herd in a model: many nodes ask for one cold version at once, and decide by the product's own pure functions."""
