"""Readers and writers of labelled text, one module per format."""
