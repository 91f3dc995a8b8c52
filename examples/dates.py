"""The last day to object: ten working days after a letter that arrived on the eve of a feast."""

from datetime import date, timedelta


def holidays_in(country: str, year: int) -> list[date]:
    """The public holidays of the whole country."""


arrived = date_of("the day before Epiphany", year=2025)
free = {*holidays_in("Spain", 2025)}
day, left = arrived, 10
while left:
    day += timedelta(days=1)
    if day.weekday() < 5 and day not in free:
        left -= 1
answer = day
