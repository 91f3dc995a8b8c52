"""Values that cross the wall: their JSON form and their short text, for both sides. Standard library only."""
