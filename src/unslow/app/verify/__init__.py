"""`unslow verify`: two servers measured in the same way, and one verdict on speed and answers."""
