"""What config files are made of, and the configs that jaxner brings along."""
