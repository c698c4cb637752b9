"""The page in a real browser. A package, so that the browser and the server are there for this folder alone."""
