"""Building blocks of config files, and the configs that come with jaxner."""
