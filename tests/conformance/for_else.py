# for/while with else, break, continue, and what the loop variable holds.

log = []

for n in [1, 2, 3]:
    log.append(n)
else:
    log.append("else")
assert log == [1, 2, 3, "else"]
assert n == 3

log = []
for n in [1, 2, 3]:
    if n == 2:
        break
    log.append(n)
else:
    log.append("else")
assert log == [1]
assert n == 2

log = []
for n in []:
    log.append("body")
else:
    log.append("else of empty")
assert log == ["else of empty"]
assert n == 2, "an empty loop leaves its variable alone"

log = []
for n in range(6):
    if n % 2:
        continue
    log.append(n)
else:
    log.append("done")
assert log == [0, 2, 4, "done"]

count = 0
while count < 3:
    count += 1
else:
    count += 100
assert count == 103

count = 0
while True:
    count += 1
    if count == 5:
        break
else:
    count = -1
assert count == 5

while False:
    count = "never"
else:
    count = "once"
assert count == "once"


def first_factor(number):
    for candidate in range(2, number):
        if number % candidate == 0:
            return candidate
    else:
        return None


assert [first_factor(k) for k in (4, 7, 9, 35)] == [2, None, 3, 5]

# break in the else clause belongs to the outer loop
trail = []
for outer in range(5):
    for inner in range(outer):
        if inner == 3:
            trail.append(("inner break", outer))
            break
    else:
        trail.append(("else", outer))
        if outer == 2:
            break
assert trail == [("else", 0), ("else", 1), ("else", 2)]
assert (outer, inner) == (2, 1)

# the iterable is evaluated once, the condition of a while each time
calls = []


def note(tag, value):
    calls.append(tag)
    return value


for item in note("iterable", [10, 20]):
    calls.append(item)
assert calls == ["iterable", 10, 20]

calls.clear()
left = 2
while note("test", left > 0):
    left -= 1
assert calls == ["test"] * 3

# assigning to the loop variable does not disturb the iteration
seen = []
for i in range(3):
    seen.append(i)
    i = 100
assert seen == [0, 1, 2] and i == 100

# targets of other kinds
box = {}
for box["key"] in "ab":
    assert box["key"] in "ab"
assert box == {"key": "b"}
for first, (second, *rest) in [(1, (2, 3, 4)), (5, (6,))]:
    seen.append((first, second, rest))
assert seen[3:] == [(1, 2, [3, 4]), (5, 6, [])]

# growing a list while walking it
grow = [3]
for g in grow:
    if g:
        grow.append(g - 1)
assert grow == [3, 2, 1, 0]

answer = "ok"
