"""`unslow tune`: start one server after the other around a plan, and measure which is the fastest."""
