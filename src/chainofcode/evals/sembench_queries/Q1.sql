-- is_positive(review) -> bool: "Whether the review is clearly positive."
SELECT reviewId FROM (SELECT DISTINCT reviewId, reviewText FROM reviews) AS r
WHERE is_positive(reviewText) LIMIT 5
