"""The live screen: it shows what is watched and carries no numbers of its own."""
