"""Speculation in numpy and pure Python: drafters, verification, controller, statistics, the loop."""
