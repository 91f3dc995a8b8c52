"""Whether an answer is what the program worked out: mutations of a run, and the verdict on them."""
