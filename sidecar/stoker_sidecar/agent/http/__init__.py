"""The agent's HTTP server: metrics, health and node pages."""
