"""Benchmarks: one command each."""
