"""Framework and order plug-ins: finds the installed ones, and runs each in a bounded process (ADR 32)."""
