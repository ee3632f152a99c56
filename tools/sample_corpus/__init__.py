"""The generator of the embedded corpus: every sentence was written for this project."""
