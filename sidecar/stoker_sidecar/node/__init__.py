"""The agent's halves that talk: to the API server about its own NodeCache, and to the fetcher of the same pod."""
