-- Pairs of reviews of one movie that disagree: each review is judged once, not each pair.
CREATE FUNCTION sentiment(review VARCHAR) RETURNS ENUM ('positive', 'negative');
CREATE MACRO opposite(a, b) AS sentiment(a) <> sentiment(b);

SELECT one.movie, one.id AS one, other.id AS other
FROM reviews AS one JOIN reviews AS other ON one.movie = other.movie AND one.id < other.id
WHERE opposite(one.text, other.text)
ORDER BY one.movie, one.id
