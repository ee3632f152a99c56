"""Corpora, label schemes, vocabularies, vectors and batches: host code, no JAX."""
