"""The diagnosis, top down.

Which phase is slow, where its time goes, which causes are there and what they cost, what to do next.
"""
