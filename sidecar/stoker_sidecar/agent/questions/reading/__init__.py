"""Questions to the reader process, which parses tenants' files."""
