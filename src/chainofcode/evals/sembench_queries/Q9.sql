-- review_score(review) -> float: "How much the reviewer liked the movie, from 1 to 5: 5 very positive, 4 positive, 3 neutral, 2 negative, 1 very negative."
SELECT reviewId, review_score(reviewText) AS reviewScore FROM reviews WHERE id = 'ant_man_and_the_wasp_quantumania'
