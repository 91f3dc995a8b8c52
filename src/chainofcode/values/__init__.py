"""Values that host and guest exchange: their JSON form and their short text. Standard library only."""
