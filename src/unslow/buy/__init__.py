"""What a buyer asks: compared devices, the one to choose, what it costs, and what each size of memory runs."""
