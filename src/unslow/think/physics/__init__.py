"""What is possible: the terms of time, on plain numbers or arrays."""
