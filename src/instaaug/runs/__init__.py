"""Experiments: which parts with which numbers."""
