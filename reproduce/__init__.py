"""The papers' tables: published figures, the runs that reproduce them, results."""
