"""Reports of runs, the inside of a model, and sentences worth annotating."""
