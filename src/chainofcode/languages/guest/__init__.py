"""What guests of every language share: the wire, requests, the scratch directory, the process itself."""
