"""Attacks on runs, files and command lines; see `python -m benchmarks.abuse -h`."""
