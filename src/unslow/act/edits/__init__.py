"""Files that start a server, edited as texts: only the words of its command line change, or nothing does."""
