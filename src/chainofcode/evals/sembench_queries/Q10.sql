-- review_score(review) -> float: "How much the reviewer liked the movie, from 1 to 5: 5 very positive, 4 positive, 3 neutral, 2 negative, 1 very negative."
SELECT id AS movieId, round(avg(review_score(reviewText)), 4) AS movieScore FROM reviews GROUP BY id
