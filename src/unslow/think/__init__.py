"""Pure functions from facts to a verdict: physics, causes, the judge. Nothing here touches the world."""
