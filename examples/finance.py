"""What an order costs, to the cent: money in decimals, weights in their own units, tax by what a thing is."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

GRAMS = {"g": Decimal(1), "kg": Decimal(1000), "lb": Decimal("453.59237")}
TAX = {"reduced": Decimal("0.07"), "full": Decimal("0.19")}


def tax_class(goods: str) -> Literal["reduced", "full"]:
    """Food and books are taxed at the reduced rate, all else in full."""


# goods, amount, unit, euros per kilogram
order = [
    ("coffee beans", "2.5", "kg", "18.90"),
    ("roofing nails", "12", "lb", "3.15"),
    ("saffron", "7", "g", "4200"),
]
total = Decimal(0)
for goods, amount, unit, price in order:
    kilograms = Decimal(amount) * GRAMS[unit] / 1000
    net = kilograms * Decimal(price)
    gross = net * (1 + TAX[tax_class(goods)])
    total += gross.quantize(Decimal("0.01"), ROUND_HALF_UP)
answer = total
