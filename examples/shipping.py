"""The cheapest order of voyages for one ship: every order is tried, and what spoils must not wait."""

from itertools import permutations

# cargo: days at sea, and what a day of waiting costs
CARGO = {"bananas": (4, 40), "turbines": (9, 300), "cut flowers": (3, 90), "fresh salmon": (2, 25), "books": (6, 10)}
LONGEST_WAIT = 10  # in days, for what spoils

spoils = {cargo: is_perishable(cargo) for cargo in CARGO}
best, plan = float("inf"), ()
for order in permutations(CARGO):
    day = cost = 0
    for cargo in order:
        days, price = CARGO[cargo]
        if spoils[cargo] and day > LONGEST_WAIT:
            break
        cost += day * price
        day += days
    else:
        if cost < best:
            best, plan = cost, order
answer = (best, *plan)
