"""What `jaxner …` does: flags in, one call out."""
