-- sentiment(review) -> Literal['positive', 'negative']: "Whether the review is positive or negative."
WITH r AS (SELECT DISTINCT id, reviewId, reviewText FROM reviews WHERE id = 'ant_man_and_the_wasp_quantumania')
SELECT one.id, one.reviewId AS reviewId1, other.reviewId AS reviewId2
FROM r AS one JOIN r AS other ON one.reviewId <> other.reviewId
WHERE sentiment(one.reviewText) = sentiment(other.reviewText)
LIMIT 10
