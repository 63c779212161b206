"""The order in which a training job reads, predicted from its seed and compared with its reads. Pure."""
