"""Speculation in pure Python: drafters, verification, controller, statistics, the loop."""
