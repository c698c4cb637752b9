"""The local page: routes, refusals, live runs. It shows a view and carries no numbers of its own."""
