"""What helped: changes of knobs as experiments, what was learned of them, and what is likely wanted next."""
