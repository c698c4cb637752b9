"""The one seam between facts and physics: a case becomes plain numbers, and a cure is applied to them."""
