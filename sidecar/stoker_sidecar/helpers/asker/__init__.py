"""The asker: asks plug-ins for the agent, as a separate user without rights (ADR 32)."""
