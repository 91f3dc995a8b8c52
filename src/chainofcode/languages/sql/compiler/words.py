"""SQL words that precede a bracket but are not functions, and functions with special evaluation rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# Keywords, types and forms that engines parse themselves and do not list among their functions.
_WORDS = """
    ALL AND ANY ARRAY AS ASC BETWEEN BY CASE CAST COALESCE COLUMNS CROSS CUBE DESC DISTINCT ELSE END ESCAPE EXCEPT
    EXCLUDE EXISTS EXTRACT FILTER FROM FULL GLOB GROUP GROUPING HAVING IF IIF IFNULL ILIKE IN INNER INTERSECT INTERVAL
    INTO IS ISNULL JOIN LATERAL LEFT LIKE LIMIT LIST MAP MATERIALIZED NATURAL NOT NOTNULL NULLIF OFFSET ON OR ORDER
    OUTER OVER OVERLAY PARTITION PIVOT POSITION QUALIFY RECURSIVE REGEXP RENAME REPLACE RIGHT ROLLUP ROW SELECT SETS
    SIMILAR SOME STRUCT SUBSTRING TABLE THEN TRIM TRY_CAST TRY UNION UNNEST UNPIVOT USING VALUES WHEN WHERE WINDOW WITH
    WITHIN BIT CHAR CHARACTER DATE DECIMAL DOUBLE ENUM FLOAT INTEGER NCHAR NUMERIC NVARCHAR REAL TEXT TIME TIMESTAMP
    VARCHAR VARYING
"""
NOT_FUNCTIONS = frozenset(_WORDS.split())
LAZY = frozenset(["COALESCE", "IFNULL", "IF", "IIF", "NVL", "NULLIF"])  # arguments are evaluated only as needed
VOLATILE = frozenset(["random", "randomblob", "uuid", "gen_random_uuid", "uuidv7", "nextval", "changes"])


def aggregating(macros: Mapping[str, Collection[str]], aggregates: frozenset[str]) -> frozenset[str]:
    """Return aggregate functions, and macros that use one or a window. `macros`: name → names that it calls."""
    found = aggregates
    while more := {name for name, called in macros.items() if name not in found and found.union(["over"]) & {*called}}:
        found |= more
    return found
