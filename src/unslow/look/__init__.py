"""The only code that reads the world. It reports, and holds no opinion."""
