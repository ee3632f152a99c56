"""The commands of `jaxner`: each turns flags into one call."""
