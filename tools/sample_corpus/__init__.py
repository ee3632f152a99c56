"""The generator of the embedded corpus, whose sentences we wrote for this project."""
