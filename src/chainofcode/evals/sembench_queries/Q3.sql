-- is_positive(review) -> bool: "Whether the review is clearly positive."
SELECT count(*) AS positive_review_cnt FROM reviews
WHERE is_positive(reviewText) AND id = 'taken_3'
