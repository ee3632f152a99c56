"""Taggers in the pipelines of other libraries, each imported only if it is used."""
