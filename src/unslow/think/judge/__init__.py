"""The diagnosis, top down: which phase is slow, where its time goes, which causes are there, what to do next."""
