"""The tiers of the sandbox by name, for the host and for the zygote; `jail` says what each consists of."""

TIERS = ("A", "A-", "B", "C")  # the best first
NAMESPACED = ("A", "A-")  # the tiers with namespaces and a root of their own
WORK = "/guest"  # the guest's working directory in these tiers
