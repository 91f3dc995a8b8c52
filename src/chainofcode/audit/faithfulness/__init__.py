"""Whether the program computed its answer: mutations of a run, and the verdict on them."""
