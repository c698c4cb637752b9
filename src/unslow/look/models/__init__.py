"""One file for each format of model file."""
