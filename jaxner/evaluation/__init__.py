"""Scores and reports: host code, no JAX."""
