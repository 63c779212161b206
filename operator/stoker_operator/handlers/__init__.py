"""The watch of Datasets and TrainingJobs by kopf, and its delivery to the mirror."""
