"""Benchmarks: see docs/speed.md."""
