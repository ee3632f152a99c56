"""A tagger's answers beyond labels: entities, probabilities, and their calibration."""
