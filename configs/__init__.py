"""One config per published system."""
