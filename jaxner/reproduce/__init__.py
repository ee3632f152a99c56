"""The papers' tables: published figures, the runs that reproduce them, and results.

published.toml   every cell with a config, and the orders that the papers claim
plan.toml        stand-in vectors, epochs, seeds and order of the runs here
results/         one JSON line for each finished run, the source of all tables

`jaxner reproduce --list` shows the state of each run.
"""
