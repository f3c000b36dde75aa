"""A page that follows a run while it trains."""
