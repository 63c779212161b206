"""The children, status and progress of TrainingJobs. Pure."""
