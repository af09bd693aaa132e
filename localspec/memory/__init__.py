"""Devices, estimate, probe and fit: does everything go into memory together?"""
