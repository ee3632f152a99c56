"""The papers' tables: what they published, what is run for them, and what came out.

published.toml   every cell that has a config, and the orders that the papers claim
plan.toml        with which stand-ins, epochs and seeds cells run here, in which order
results/         one JSON line for each finished run; all tables are made from them

`jaxner reproduce --list` shows where things stand.
"""
