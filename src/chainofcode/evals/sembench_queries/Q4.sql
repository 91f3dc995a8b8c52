-- is_positive(review) -> bool: "Whether the review is clearly positive."
SELECT avg(CASE WHEN is_positive(reviewText) THEN 1.0 ELSE 0.0 END) AS positivity_ratio
FROM reviews WHERE id = 'taken_3'
