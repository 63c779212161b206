"""Learning: changes of knobs as experiments, their success rates, and predictions of the next data."""
