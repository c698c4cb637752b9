"""The embedded engine and the made-up models that it serves."""
