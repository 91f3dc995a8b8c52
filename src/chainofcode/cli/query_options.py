"""Options of commands that run SQL: a database, the engine, and the files as tables."""

from __future__ import annotations

import argparse
import asyncio

from ..engine import RunOptions
from ..errors import InputError
from ..languages import SQL, Language
from ..methods import Files, files_of
from ..methods.queries import query_options, tables_of
from ..sandbox import Sandbox
from .parser import option_group


def add_database(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Program options")
    options.add_argument("--database", metavar="FILE", help="for SQL: a SQLite or DuckDB database, opened read-only")
    options.add_argument(
        "--engine",
        metavar="NAME",
        default="auto",
        help="for SQL: duckdb or sqlite (default: that of the database, else DuckDB if it is installed)",
    )


async def asked_files(given: argparse.Namespace, options: RunOptions, sandbox: Sandbox) -> Files:
    """Return the files of --file for a question: tables for SQL, variables for other languages."""
    if options.language is SQL:
        return await tables_of(given.file, sandbox=sandbox)
    return await files_of(given.file, options, sandbox)


def with_files(given: argparse.Namespace, options: RunOptions, language: Language, sandbox: Sandbox) -> RunOptions:
    """Return the options with the files of --file: tables for SQL, variables for other languages."""
    if language is SQL:
        tables = asyncio.run(tables_of(given.file, database=given.database, engine=given.engine, sandbox=sandbox))
        return query_options(options, tables)
    if given.database or given.engine != "auto":
        raise InputError("--database and --engine are for SQL: a query in a .sql file, or coc sql")
    if not given.file:
        return options
    return asyncio.run(files_of(given.file, options, sandbox)).granted(options)
