"""The asker: asks framework plug-ins for the agent, as a user of its own that may do nothing (ADR 60)."""
