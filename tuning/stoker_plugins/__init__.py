"""Framework plug-ins: which are installed, and how they are asked where a fault of theirs harms nobody (ADR 52)."""
