"""The papers' own experiments on a trained tagger, and its report."""
