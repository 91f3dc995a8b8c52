"""A question in words, asked of a database: SQL counts, and a function of the model's stands in the query."""

import functools
import sqlite3

tickets = [
    ("Ann", "The app crashes when I open the map."),
    ("Bob", "Could you add a dark theme?"),
    ("Cem", "I was charged twice in May!"),
    ("Ann", "The export button does nothing."),
    ("Dana", "My invoice has the wrong address."),
]
base = sqlite3.connect("tickets.db")
base.execute("CREATE TABLE ticket (customer TEXT, text TEXT)")
base.executemany("INSERT INTO ticket VALUES (?, ?)", tickets)
base.commit()
base.create_function("topic_of", 1, functools.cache(lambda text: topic_of(text)))
rows = base.execute("SELECT topic_of(text) AS topic, count(*) FROM ticket GROUP BY topic ORDER BY 2 DESC, 1")
answer = rows.fetchall()
