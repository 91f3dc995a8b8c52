"""Queries over five schemas, and the functions in them, defined in Python.

The tests run each query also in an engine that has these functions.
"""

from __future__ import annotations

import re
from typing import Any

TABLES: dict[str, list[dict[str, Any]]] = {
    "reviews": [
        {"id": 1, "movie": "taken", "text": "great fun", "stars": 4, "day": "2020-01-01"},
        {"id": 2, "movie": "taken", "text": "oh sure, brilliant", "stars": 1, "day": "2020-01-02"},
        {"id": 3, "movie": "up", "text": "lovely", "stars": 5, "day": "2020-01-03"},
        {"id": 4, "movie": "up", "text": "yeah right", "stars": 2, "day": "2020-02-04"},
        {"id": 5, "movie": "heat", "text": "oh sure, brilliant", "stars": 1, "day": "2020-02-05"},
        {"id": 6, "movie": "heat", "text": None, "stars": 3, "day": "2020-03-06"},
        {"id": 7, "movie": "alien", "text": "it's scary", "stars": 5, "day": "2020-03-07"},
        {"id": 8, "movie": "alien", "text": "great fun", "stars": None, "day": "2020-03-08"},
    ],
    "movies": [
        {"title": "taken", "year": 2008, "genre": "action"},
        {"title": "up", "year": 2009, "genre": "family"},
        {"title": "heat", "year": 1995, "genre": "action"},
        {"title": "brazil", "year": 1985, "genre": "satire"},
    ],
    "tickets": [
        {"n": 10, "customer": "ann", "subject": "cannot log in", "hours": 2.5, "open": True},
        {"n": 11, "customer": "bob", "subject": "refund please", "hours": 0.5, "open": False},
        {"n": 12, "customer": "ann", "subject": "app crashes daily", "hours": 8.0, "open": True},
        {"n": 13, "customer": "cid", "subject": "love the new look", "hours": 0.1, "open": False},
        {"n": 14, "customer": "bob", "subject": "refund please", "hours": 1.0, "open": True},
    ],
    "products": [
        {"sku": "a1", "name": "garden hose", "price": 19.9, "stock": 3},
        {"sku": "b2", "name": "espresso cup", "price": 6.5, "stock": 0},
        {"sku": "c3", "name": "desk lamp", "price": 35.0, "stock": 12},
        {"sku": "d4", "name": "espresso machine", "price": 249.0, "stock": 1},
    ],
    "orders": [
        {"number": 1, "sku": "a1", "note": "gift for my mother", "quantity": 1},
        {"number": 2, "sku": "b2", "note": "urgent, party tomorrow", "quantity": 6},
        {"number": 3, "sku": "b2", "note": "", "quantity": 2},
        {"number": 4, "sku": "d4", "note": "urgent, party tomorrow", "quantity": 1},
        {"number": 5, "sku": "zz", "note": "call me first", "quantity": 1},
    ],
    "people": [
        {"name": "Ada", "city": "London", "bio": "wrote the first program", "boss": None},
        {"name": "Bob", "city": "Paris", "bio": "bakes bread", "boss": "Ada"},
        {"name": "Cleo", "city": "Cairo", "bio": "paints ships", "boss": "Ada"},
        {"name": "Dan", "city": "Paris", "bio": "writes compilers", "boss": "Bob"},
    ],
    "logs": [
        {"moment": "2024-05-01", "service": "web", "message": "timeout after 30s", "code": 504},
        {"moment": "2024-05-01", "service": "db", "message": "disk is full", "code": 500},
        {"moment": "2024-05-02", "service": "web", "message": "timeout after 31s", "code": 504},
        {"moment": "2024-05-03", "service": "web", "message": "ok", "code": 200},
    ],
}

SARCASTIC = {"oh sure, brilliant", "yeah right"}


def is_sarcastic(text: str) -> bool:
    return text in SARCASTIC


def sentiment(text: str) -> str:
    return "positive" if re.search("great|lovely|love|gift|ok", text) else "negative"


def score(text: str) -> int:
    return len(text) % 7


def urgency(text: str) -> float:
    return len(text) / 8


def topic(text: str) -> str:
    return "money" if "refund" in text else "access" if "log in" in text else "product"


def is_kitchenware(name: str) -> bool:
    return "espresso" in name


def is_about_computers(text: str) -> bool:
    return "program" in text or "compilers" in text


def country(city: str) -> str:
    return {"London": "UK", "Paris": "France"}.get(city, "Egypt")


def is_same_kind(one: str, other: str) -> bool:
    return one.split()[0] == other.split()[0]


def cause(message: str) -> str:
    return "network" if "timeout" in message else "storage" if "disk" in message else "none"


def severity(label: str) -> int:
    return {"network": 2, "storage": 3, "none": 1}[label]


def shout(text: str) -> str:
    return text.upper() + "!"


def release_day() -> str:
    return "2024-05-02"


FUNCTIONS = {
    name: value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__
}
KINDS = {
    "is_sarcastic": "BOOLEAN", "sentiment": "VARCHAR", "score": "BIGINT", "urgency": "DOUBLE", "topic": "VARCHAR",
    "is_kitchenware": "BOOLEAN", "is_about_computers": "BOOLEAN", "country": "VARCHAR", "is_same_kind": "BOOLEAN",
    "cause": "VARCHAR", "severity": "BIGINT", "shout": "VARCHAR",
    "release_day": "VARCHAR",
}  # fmt: skip

# A query and the number of its distinct calls; -1: not checked.
QUERIES: list[tuple[str, int]] = [
    ("SELECT movie, count(*) AS n FROM reviews WHERE is_sarcastic(text) GROUP BY movie ORDER BY movie", 5),
    ("SELECT id FROM reviews WHERE is_sarcastic(text) AND stars < 2 ORDER BY id", 1),
    ("SELECT id FROM reviews WHERE stars < 2 AND is_sarcastic(text) ORDER BY id", 1),
    ("SELECT id FROM reviews WHERE is_sarcastic(text) OR stars >= 4 ORDER BY id", 3),
    ("SELECT id FROM reviews WHERE NOT is_sarcastic(text) ORDER BY id", 5),
    ("SELECT id FROM reviews WHERE is_sarcastic(text) AND sentiment(text) = 'negative' ORDER BY id", 7),
    ("SELECT id FROM reviews WHERE sentiment(text) IN ('positive', 'neutral') ORDER BY id", 5),
    ("SELECT id, sentiment(text) AS s FROM reviews ORDER BY id", 5),
    ("SELECT id, sentiment(text) AS s FROM reviews WHERE stars BETWEEN 4 AND 5 ORDER BY id", 3),
    ("SELECT sentiment(text) AS s, count(*) AS n FROM reviews GROUP BY s ORDER BY s", 5),
    ("SELECT sentiment(text) AS s, avg(stars) AS mean FROM reviews WHERE text IS NOT NULL GROUP BY 1 ORDER BY 1", 5),
    ("SELECT movie, sum(score(text)) AS total FROM reviews GROUP BY movie ORDER BY total DESC, movie", 5),
    ("SELECT movie FROM reviews GROUP BY movie HAVING count(*) > 1 AND sum(score(text)) > 4 ORDER BY movie", -1),
    ("SELECT id FROM reviews WHERE text IS NOT NULL ORDER BY score(text) DESC, id", 5),
    ("SELECT id FROM reviews WHERE text IS NOT NULL ORDER BY score(text) DESC, id LIMIT 3", 5),
    ("SELECT id FROM reviews WHERE is_sarcastic(text) ORDER BY id LIMIT 1", 2),
    ("SELECT id, shout(text) AS loud FROM reviews WHERE text IS NOT NULL ORDER BY day DESC LIMIT 2", 2),
    ("SELECT id FROM reviews WHERE is_sarcastic(text) ORDER BY day DESC LIMIT 1", -1),
    ("SELECT id, CASE WHEN stars > 3 THEN sentiment(text) ELSE 'low' END AS s FROM reviews ORDER BY id", 3),
    (
        "SELECT id, CASE sentiment(text) WHEN 'positive' THEN 1 WHEN 'negative' THEN 0 END AS s FROM reviews ORDER BY id",
        5,
    ),
    ("SELECT id, coalesce(stars, score(text)) AS s FROM reviews ORDER BY id", 1),
    (
        "SELECT r.id, m.year FROM reviews r JOIN movies m ON r.movie = m.title WHERE is_sarcastic(r.text) ORDER BY r.id",
        4,
    ),
    (
        "SELECT r.id FROM reviews r JOIN movies m ON r.movie = m.title WHERE is_sarcastic(r.text) AND m.year < 2000 ORDER BY 1",
        1,
    ),
    (
        "SELECT r.id FROM reviews r, movies m WHERE is_sarcastic(r.text) AND r.movie = m.title AND m.genre = 'family' ORDER BY 1",
        2,
    ),
    (
        "SELECT m.title, r.id FROM movies m LEFT JOIN reviews r ON r.movie = m.title AND is_sarcastic(r.text) ORDER BY 1, 2",
        4,
    ),
    (
        "SELECT m.title FROM movies m WHERE EXISTS (SELECT 1 FROM reviews r WHERE r.movie = m.title AND is_sarcastic(r.text)) ORDER BY 1",
        4,
    ),
    (
        "SELECT m.title FROM movies m WHERE m.title IN (SELECT movie FROM reviews WHERE is_sarcastic(text)) ORDER BY 1",
        5,
    ),
    (
        "SELECT m.title, (SELECT count(*) FROM reviews r WHERE r.movie = m.title AND is_sarcastic(r.text)) AS n FROM movies m ORDER BY 1",
        4,
    ),
    (
        "WITH s AS (SELECT id, movie, sentiment(text) AS tone FROM reviews) SELECT tone, count(*) AS n FROM s GROUP BY tone ORDER BY tone",
        5,
    ),
    (
        "WITH s AS (SELECT * FROM reviews WHERE is_sarcastic(text)), t AS (SELECT movie, count(*) AS n FROM s GROUP BY movie) SELECT * FROM t ORDER BY movie",
        5,
    ),
    (
        "SELECT a.id AS one, b.id AS other FROM reviews a JOIN reviews b ON a.movie = b.movie AND a.id < b.id WHERE sentiment(a.text) <> sentiment(b.text) ORDER BY 1",
        5,
    ),
    (
        "SELECT id FROM reviews WHERE is_sarcastic(text) UNION ALL SELECT year FROM movies WHERE year < 1990 ORDER BY 1",
        5,
    ),
    ("SELECT count(*) FILTER (WHERE is_sarcastic(text)) AS n FROM reviews WHERE stars < 3", 2),
    (
        "SELECT sum(CASE WHEN is_sarcastic(text) THEN 1 ELSE 0 END) AS n, count(*) AS total FROM reviews WHERE movie = 'taken'",
        2,
    ),
    ("SELECT DISTINCT sentiment(text) AS s FROM reviews WHERE stars > 2 ORDER BY s", 3),
    ("SELECT customer, topic(subject) AS t FROM tickets WHERE open ORDER BY n", 3),
    (
        "SELECT customer, count(*) AS n FROM tickets WHERE topic(subject) = 'money' GROUP BY customer ORDER BY customer",
        4,
    ),
    ("SELECT n FROM tickets WHERE urgency(subject) > 1.6 ORDER BY n", 4),
    ("SELECT n, urgency(subject) * hours AS weight FROM tickets ORDER BY weight DESC", 4),
    ("SELECT topic(subject) AS t, max(hours) AS most FROM tickets GROUP BY topic(subject) ORDER BY t", 4),
    ("SELECT n FROM tickets WHERE topic(subject) = 'money' AND open AND urgency(subject) < 2 ORDER BY n", -1),
    ("SELECT avg(urgency(subject)) AS mean FROM tickets WHERE hours > 1", 2),
    ("SELECT upper(topic(subject)) || '!' AS t FROM tickets WHERE n = 11", 1),
    ("SELECT n FROM tickets WHERE length(topic(subject)) > 5 ORDER BY n", 4),
    ("SELECT sku FROM products WHERE is_kitchenware(name) AND stock > 0 ORDER BY sku", 3),
    (
        "SELECT p.sku, o.number FROM products p JOIN orders o USING (sku) WHERE is_kitchenware(p.name) AND o.quantity > 1 ORDER BY 2",
        1,
    ),
    (
        "SELECT o.number FROM orders o JOIN products p ON p.sku = o.sku AND is_kitchenware(p.name) WHERE o.note <> '' ORDER BY 1",
        3,
    ),
    (
        "SELECT a.sku AS one, b.sku AS other FROM products a JOIN products b ON a.sku < b.sku AND is_same_kind(a.name, b.name) ORDER BY 1",
        6,
    ),
    (
        "SELECT sum(o.quantity * p.price) AS total FROM orders o JOIN products p ON o.sku = p.sku WHERE sentiment(o.note) = 'positive'",
        3,
    ),
    ("SELECT number, sentiment(note) AS s FROM orders WHERE note <> '' ORDER BY number", 3),
    (
        "SELECT sku FROM products WHERE price > (SELECT avg(price) FROM products WHERE is_kitchenware(name)) ORDER BY sku",
        4,
    ),
    ("SELECT name FROM people WHERE is_about_computers(bio) ORDER BY name", 4),
    ("SELECT country(city) AS c, count(*) AS n FROM people GROUP BY c ORDER BY n DESC, c", 3),
    (
        "SELECT p.name, b.name AS boss FROM people p JOIN people b ON p.boss = b.name WHERE country(p.city) = country(b.city) ORDER BY 1",
        3,
    ),
    ("SELECT name FROM people WHERE country(city) = 'France' AND is_about_computers(bio) ORDER BY name", 5),
    (
        "WITH RECURSIVE up(name, boss) AS (SELECT name, boss FROM people WHERE name = 'Dan' UNION ALL SELECT p.name, p.boss FROM people p JOIN up ON p.name = up.boss) SELECT name FROM up WHERE is_about_computers(name) OR name <> 'x' ORDER BY name",
        0,
    ),
    ("SELECT cause(message) AS c, count(*) AS n FROM logs WHERE code >= 500 GROUP BY c ORDER BY c", 3),
    ("SELECT service, severity(cause(message)) AS r FROM logs ORDER BY r DESC, service", 7),
    (
        "SELECT service, max(severity(cause(message))) AS worst FROM logs WHERE code <> 200 GROUP BY service ORDER BY service",
        5,
    ),
    (
        "SELECT moment, CAST(urgency(message) AS INTEGER) AS u FROM logs WHERE code = 504 AND cause(message) LIKE 'net%' ORDER BY moment",
        4,
    ),
    ("SELECT service FROM logs WHERE is_sarcastic('oh sure, brilliant') AND code = 500", 1),
    (
        "SELECT row_number() OVER (ORDER BY severity(cause(message)), moment) AS place, service FROM logs ORDER BY place",
        7,
    ),
    # derived tables: holes inside, and conditions on their columns
    ("SELECT tone, count(*) AS n FROM (SELECT sentiment(text) AS tone FROM reviews) q GROUP BY tone ORDER BY tone", 5),
    (
        "SELECT q.id FROM (SELECT id, stars, is_sarcastic(text) AS s FROM reviews) q WHERE q.s AND q.stars < 2 ORDER BY 1",
        1,
    ),
    (
        "WITH q(i, s, n) AS (SELECT id, is_sarcastic(text), stars FROM reviews) SELECT i FROM q WHERE s AND n < 2 ORDER BY i",
        1,
    ),
    (
        "WITH q AS (SELECT *, is_sarcastic(text) AS s FROM reviews), r AS (SELECT * FROM q WHERE stars < 3) SELECT id FROM r WHERE s AND movie <> 'up' ORDER BY id",
        1,
    ),
    (
        "SELECT q.id FROM (SELECT id, movie, is_sarcastic(text) AS s FROM reviews) q JOIN movies m ON q.s AND q.movie = m.title AND m.year < 2000 ORDER BY 1",
        1,
    ),
    (
        "WITH q AS (SELECT id, stars, sentiment(text) AS tone FROM reviews) SELECT id FROM q WHERE stars = 5 ORDER BY id",
        0,
    ),
    (
        "SELECT number FROM (SELECT number, sku FROM orders WHERE sentiment(note) = 'positive') q WHERE sku IN (SELECT sku FROM products WHERE is_kitchenware(name)) ORDER BY 1",
        -1,
    ),
    # LIMIT: calls that only rows of the result need
    ("SELECT id, shout(text) AS s FROM reviews WHERE text IS NOT NULL ORDER BY score(text) DESC, id LIMIT 2", 7),
    ("SELECT id, sentiment(text) tone FROM reviews WHERE text IS NOT NULL ORDER BY tone, id LIMIT 2", 5),
    ("SELECT id, sentiment(text), shout(text) AS s FROM reviews WHERE id < 5 ORDER BY 2, id LIMIT 1", 5),
    ("SELECT movie, shout(movie) AS s, count(*) AS n FROM reviews GROUP BY movie ORDER BY n DESC, movie LIMIT 2", 2),
    ("SELECT movie, shout(max(text)) AS s FROM reviews GROUP BY movie ORDER BY movie LIMIT 1", 1),
    (
        "SELECT movie, sum(score(text)) AS total, shout(movie) AS s FROM reviews GROUP BY movie ORDER BY total DESC, movie LIMIT 1",
        6,
    ),
    ("SELECT shout(text) AS s FROM reviews WHERE is_sarcastic(text) ORDER BY score(text), id LIMIT 1", -1),
    ("SELECT DISTINCT sentiment(text) AS s FROM reviews WHERE text IS NOT NULL ORDER BY s LIMIT 1", 5),
    (
        "SELECT id, row_number() OVER (ORDER BY score(text), id) AS place, shout(text) AS s FROM reviews WHERE text IS NOT NULL ORDER BY place LIMIT 2",
        6,
    ),
    ("SELECT id FROM reviews WHERE is_sarcastic(text) ORDER BY id LIMIT 1 OFFSET 1", 4),
    ("SELECT id FROM reviews WHERE is_sarcastic(text) LIMIT 0", 0),
    ("SELECT id, shout(text) AS s FROM reviews WHERE is_sarcastic(text) ORDER BY id LIMIT 1 OFFSET 1", 5),
    ("SELECT id, score(text) || '!' AS a, score(text) + 1 AS b FROM reviews WHERE stars = 5 ORDER BY id", 2),
    # names, places, numbers of arguments
    ("SELECT moment, release_day() AS d FROM logs WHERE code = 504 ORDER BY moment", 1),
    ("SELECT count(*) AS n FROM logs WHERE release_day() = '2024-05-02'", 1),
    ('SELECT id FROM reviews /* is_sarcastic(movie) */ WHERE "is_sarcastic"(text) -- shout(text)\nORDER BY id', 5),
    ("VALUES (shout('a'), 1), (shout('b'), 2)", 2),
    ("WITH v(x) AS (VALUES ('oh sure, brilliant'), ('lovely')) SELECT x FROM v WHERE is_sarcastic(x)", 2),
    ("SELECT id FROM reviews WHERE sentiment(text) IS DISTINCT FROM 'positive' AND stars > 2 ORDER BY id", 3),
    (
        "SELECT id, sum(score(text)) OVER w AS s FROM reviews WINDOW w AS (PARTITION BY sentiment(text) ORDER BY id) ORDER BY id",
        10,
    ),
    (
        "WITH RECURSIVE c(t, n) AS (SELECT 'a', 0 UNION ALL SELECT shout(t), n + 1 FROM c WHERE n < 3) SELECT t FROM c ORDER BY n",
        3,
    ),
    ("SELECT id FROM reviews EXCEPT SELECT id FROM reviews WHERE is_sarcastic(text) ORDER BY id", 5),
    (
        "SELECT m.title, r.id FROM movies m FULL JOIN reviews r ON r.movie = m.title AND is_sarcastic(r.text) ORDER BY 1, 2",
        4,
    ),
    # fewer rows are judged only where they decide nothing
    ("SELECT count(*) FILTER (WHERE is_sarcastic(text)) AS n FROM reviews LIMIT 1", 5),
    (
        "SELECT movie, count(*) FILTER (WHERE is_sarcastic(text)) AS n FROM reviews GROUP BY movie ORDER BY movie LIMIT 2",
        -1,
    ),
    ("SELECT id, score(text) AS s, avg(score(text)) OVER () AS m FROM reviews ORDER BY id LIMIT 3", 5),
    (
        "SELECT score(text) AS s, sum(score(text)) AS t FROM reviews WHERE id < 4 GROUP BY text ORDER BY text LIMIT 2",
        -1,
    ),
    ("SELECT *, score(title) AS s FROM movies ORDER BY 4 DESC, 1 LIMIT 2", 4),
    ("SELECT m.*, score(title) AS s FROM movies m ORDER BY 2 LIMIT 2", 4),
    ("SELECT id FROM reviews WHERE NOT is_sarcastic(text) ORDER BY id LIMIT 1 + 1 OFFSET 1", 5),
    ("SELECT id FROM reviews WHERE NOT is_sarcastic(text) ORDER BY id LIMIT 2 OFFSET 0 + 1", 5),
    ("SELECT id FROM reviews WHERE coalesce(is_sarcastic(text), false) ORDER BY id LIMIT 1", 2),
    ("SELECT id FROM reviews WHERE is_sarcastic(text) IS NOT NULL ORDER BY id DESC LIMIT 2", 2),
    ("SELECT id FROM reviews WHERE CASE WHEN is_sarcastic(text) THEN 1 ELSE 0 END = 1 ORDER BY id LIMIT 2", 4),
    (
        "SELECT m.title, r.id FROM movies m LEFT JOIN reviews r ON r.movie = m.title AND is_sarcastic(r.text) ORDER BY 1, 2 LIMIT 3",
        4,
    ),
    (
        "SELECT id FROM reviews WHERE sentiment(text) = 'negative' ORDER BY rank() OVER (PARTITION BY movie ORDER BY id), id LIMIT 3",
        5,
    ),
    (
        "SELECT id, sum(score(text)) OVER (PARTITION BY stars > 2 AND movie <> 'up' ORDER BY id) AS s FROM reviews ORDER BY id",
        5,
    ),
    ("SELECT SENTIMENT(Text) AS s, count(*) AS n FROM reviews GROUP BY sentiment(text) ORDER BY s", 5),
    ("SELECT sentiment(movie), sentiment(movie) AS a FROM reviews WHERE id < 2 ORDER BY id", 1),
]

# Syntax that DuckDB does not have.
SQLITE_QUERIES: list[tuple[str, int]] = [
    ("SELECT id FROM reviews WHERE NOT is_sarcastic(text) ORDER BY id LIMIT -1 OFFSET 2", 5),
    ("SELECT id FROM reviews WHERE NOT is_sarcastic(text) ORDER BY id LIMIT 2, 2", 5),
]

# Syntax that SQLite does not have.
DUCKDB_QUERIES: list[tuple[str, int]] = [
    ("SELECT DISTINCT ON (sentiment(text)) sentiment(text) AS tone, id FROM reviews WHERE text IS NOT NULL ORDER BY sentiment(text), id", 5),
    ("SELECT list_filter(['yeah right', 'lovely'], lambda x: is_sarcastic(x) AND x <> 'ok') AS found", 2),
    ("SELECT list_transform(['a', 'b'], lambda x: shout(x)) AS loud", 2),
    ("SELECT [shout(x) FOR x IN ['a', 'b'] IF x <> 'b'] AS loud", -1),
    ("SELECT id FROM reviews QUALIFY row_number() OVER (PARTITION BY sentiment(text) ORDER BY id) = 1 ORDER BY id", 5),
    ("SELECT id, x.tone FROM reviews r, LATERAL (SELECT sentiment(r.text) AS tone) x WHERE id < 3 ORDER BY id", 2),
    ("SELECT sentiment(text) AS tone, count(*) AS n FROM reviews GROUP BY ALL ORDER BY ALL LIMIT 1", 5),
    ("SELECT * REPLACE (shout(title) AS title) FROM movies WHERE year > 2000 ORDER BY year LIMIT 1", 1),
    ("SELECT sentiment(text) AS tone, count(*) AS n FROM reviews GROUP BY ROLLUP (sentiment(text)) ORDER BY n, tone", 5),
    ("FROM reviews SELECT id WHERE is_sarcastic(text) AND stars < 2 ORDER BY id", 1),
    # fewer rows are judged only where they decide nothing
    ("SELECT id FROM reviews WHERE NOT is_sarcastic(text) ORDER BY id LIMIT 50% OFFSET 1", 5),
    ("SELECT id, score(text) AS s, s + 1 AS t FROM reviews WHERE text IS NOT NULL ORDER BY t DESC, id LIMIT 2", 5),
    ("SELECT id, score(text) AS s, avg(s) OVER () AS t FROM reviews ORDER BY id LIMIT 2", 5),
    ("SELECT s: score(text), id FROM reviews WHERE text IS NOT NULL ORDER BY s DESC, id LIMIT 2", 5),
    ("SELECT score(text) AS s, sum(stars) OVER w AS t FROM reviews WINDOW w AS (ORDER BY s, id) ORDER BY id LIMIT 2", 5),
    ("SELECT * REPLACE (score(title) AS title) FROM movies ORDER BY title DESC, year LIMIT 2", 4),
    ("SELECT score(COLUMNS('title|genre')) FROM movies ORDER BY title DESC, genre LIMIT 2", 7),
    ("SELECT geomean(score(text) + 1) AS g FROM reviews LIMIT 1", 5),
    ("SELECT mode() WITHIN GROUP (ORDER BY sentiment(text)) AS g FROM reviews LIMIT 1", 5),
    ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY score(text)) AS g FROM reviews LIMIT 1", 5),
    ("SELECT id, unnest(string_split(shout(text), ' ')) AS w FROM reviews WHERE text IS NOT NULL ORDER BY id LIMIT 3", -1),
    ("SELECT list_transform(['a', 'b'], lambda x: shout(x)) AS loud FROM reviews LIMIT 1", 2),
    ("SELECT [shout(x) FOR x IN ['a', 'b']] AS loud FROM reviews LIMIT 1", 2),
]  # fmt: skip
