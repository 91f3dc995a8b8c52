-- sentiment(review) -> Literal['positive', 'negative']: "Whether the review is positive or negative."
SELECT upper(sentiment(reviewText)) AS scoreSentiment, count(*) AS count FROM reviews
WHERE id = 'taken_3' GROUP BY 1
