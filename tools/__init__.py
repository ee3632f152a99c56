"""Generators of files in the package; not part of the package."""
