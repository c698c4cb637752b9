"""`unslow plan`: from what a user asks to the settings that serve it best."""
