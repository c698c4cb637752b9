"""Before and after a change: is it faster by more than noise, and does it still answer as before."""
