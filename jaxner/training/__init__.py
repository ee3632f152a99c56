"""Training: objectives, optimizers and the step."""
