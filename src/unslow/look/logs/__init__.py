"""One file for each dialect of log or tool output, on files and on pasted text alike; found by presence."""
