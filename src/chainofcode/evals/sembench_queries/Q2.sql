-- is_positive(review) -> bool: "Whether the review is clearly positive."
SELECT reviewId FROM (SELECT DISTINCT id, reviewId, reviewText FROM reviews) AS r
WHERE is_positive(reviewText) AND id = 'taken_3' LIMIT 5
