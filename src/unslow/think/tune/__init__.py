"""Measure and search around a plan: which settings to try, who stays, and what the measurements say."""
