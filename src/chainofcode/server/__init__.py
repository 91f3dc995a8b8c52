"""The page on which a run is watched, stepped through and shared."""
