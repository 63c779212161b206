"""What runs once and ends: bring the CRDs into use, take everything away."""
