"""The papers' tables: published figures, the runs that reproduce them, and results.

published.toml   every cell with a config, and the orders that the papers claim
plan.toml        stand-in vectors, epochs, seeds and order of the runs here
figures.toml     published values of the papers' other tables and figures
../results/      one JSON line for each finished run, the source of all tables

`python -m reproduce --list` shows the state of each run.
"""
