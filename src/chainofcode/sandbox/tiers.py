"""The names of the sandbox's tiers, for the host and the zygote; `jail` describes their layers."""

TIERS = ("A", "A-", "B", "C")  # the best first
NAMESPACED = ("A", "A-")  # the tiers with namespaces and a root of their own
WORK = "/guest"  # the guest's working directory in these tiers
