-- is_sarcastic(review) -> bool: "Whether the review says the opposite of what it means."
SELECT movie, count(*) AS n
FROM reviews
WHERE is_sarcastic(text) AND stars < 3
GROUP BY movie
ORDER BY n DESC, movie
