basket = ["apple", "hammer", "kiwi", "saw"]
count = 0
for item in basket:
    if is_fruit(item):
        count += 1
answer = f"{count} of {len(basket)} are fruit"
