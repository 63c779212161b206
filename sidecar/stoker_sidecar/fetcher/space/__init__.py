"""What the cache folders hold, and what leaves them."""
