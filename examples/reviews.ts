interface Review {
  movie: string;
  text: string;
}

// Declared, not defined: the model answers.
declare function sentiment(text: string): "good" | "bad" | "mixed";

const reviews: Review[] = [
  { movie: "Gravel", text: "Two hours I will never get back." },
  { movie: "Gravel", text: "Oh great, another explosion." },
  { movie: "Lighthouse", text: "I left the cinema smiling." },
  { movie: "Lighthouse", text: "Lovely pictures, thin story." },
];

// All requests are in flight at once.
const labels = await Promise.all(reviews.map((review) => sentiment(review.text)));

const tally: Record<string, Record<string, number>> = {};
reviews.forEach(({ movie, text }, at) => {
  const own = (tally[movie] ??= { good: 0, bad: 0, mixed: 0, sarcastic: 0 });
  own[labels[at]] += 1;
  if (text.isSarcastic()) own.sarcastic += 1; // a method that no text has
});
answer = tally;
