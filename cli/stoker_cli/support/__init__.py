"""Commands for trouble: doctor, support-bundle, validate and completion."""
