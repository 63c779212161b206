"""DatasetClasses and TuningProfiles: what tenants may use. Pure."""
