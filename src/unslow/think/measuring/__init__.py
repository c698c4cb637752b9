"""Which measurement to make next: the one that settles most for the seconds that it takes."""
