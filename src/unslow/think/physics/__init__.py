"""What is possible: one phenomenon in each file, on plain numbers."""
