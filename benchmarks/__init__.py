"""Measured budgets; README.md is the contract."""
