"""One file for each format of model file; and the stores in which tools keep them."""
