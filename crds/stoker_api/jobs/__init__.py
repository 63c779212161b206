"""API models of TrainingJobs and of annotated pods."""
