"""Scores of several methods, compared seed by seed, and the tables that say so."""
