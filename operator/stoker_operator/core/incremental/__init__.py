"""The decision about all Datasets, recomputed only for changed objects. Pure."""
