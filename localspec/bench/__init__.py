"""Workloads, comparison and report: what speculation wins on this machine."""
