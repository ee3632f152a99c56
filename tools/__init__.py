"""What makes files of the package; no part of it."""
