"""Learning the factors of the speed prediction from published and own measurements."""
