"""The order in which a training job reads, known from its seed: what it is, and whether what is read agrees. Pure."""
