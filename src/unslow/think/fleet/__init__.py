"""Judging many instances at once: what each loses, how it differs from its peers, how many users they can serve."""
