const basket = ["apple", "hammer", "kiwi", "saw"];
const fruit = basket.filter(isFruit);
answer = `${fruit.length} of ${basket.length} are fruit`;
