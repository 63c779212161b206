"""Small confined processes that handle tenants' data for the agent, which is root."""
