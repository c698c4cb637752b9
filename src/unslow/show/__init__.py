"""A report as a person or a program wants it; nothing here computes. One file for each kind of report."""
