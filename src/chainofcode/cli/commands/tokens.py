"""`coc tokens`: adds, lists and revokes tokens of a server, even while it runs."""

from __future__ import annotations

import argparse
import datetime
import os
import time
from typing import Any

from ...errors import InputError
from ...server import opened_tokens
from ...server.access_tokens import SCOPES, AccessToken, TokenFile, TokenStore, new_token
from ...server.settings import check_store
from ..model_options import read_budget
from ..parser import add_list
from ..terminal import ANSWERED, note, print_json, print_line, print_result
from .serve import add_data, data_directory

_DAY_SECONDS = 86_400.0
_MAX_DAYS = 36_500


def add_to(commands: Any) -> None:
    tokens = commands.add_parser(
        "tokens",
        help="add, list or revoke the tokens of coc serve",
        description="Only hashes of tokens are stored: in the data directory of one server, or in the --store of "
        "several. A running server notices changes within two seconds.",
        examples=(
            "coc tokens",
            "coc tokens add ann --expires 90",
            "coc tokens revoke ann",
        ),
    )
    tokens.add_argument("action", nargs="?", choices=list(_ACTIONS), default="list", help="what to do (list)")
    tokens.add_argument("names", metavar="NAME", nargs="*", help="add: the owner; revoke: owners, or ids as listed")
    scopes = "; ".join(f"{scope}: {what}" for scope, what in SCOPES.items())
    add_list(tokens, "--scope", "SCOPE", f"what a new token may do (read and run). {scopes}")
    tokens.add_argument(
        "--expires", metavar="DAYS", type=float, help="the number of days until a new token expires (never)"
    )
    add_list(tokens, "--budget", "WHICH=N", "what the owner of a new token may use per day: tokens=100000, money=0.50")
    tokens.add_argument("--all", action="store_true", help="list revoked and expired tokens, too")
    tokens.add_argument("--json", action="store_true", help="print the list as JSON")
    add_data(tokens)
    tokens.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="the PostgreSQL database of several servers: its tokens are valid on all; prefer setting COC_STORE",
    )
    tokens.set_defaults(command=_tokens)


def _tokens(given: argparse.Namespace) -> int:
    url = given.store or ("" if given.data else os.environ.get("COC_STORE", ""))
    if given.data and url:
        raise InputError("--data and --store cannot be combined: tokens are stored in one of them")
    if url:
        check_store(url)
        with opened_tokens(url) as shared:
            _ACTIONS[given.action](shared, given)
    else:
        _ACTIONS[given.action](TokenFile(given.data or data_directory()), given)
    return ANSWERED


def _add(store: TokenStore, given: argparse.Namespace) -> None:
    if len(given.names) != 1:
        raise InputError("name the owner of the new token: coc tokens add NAME")
    if given.expires is not None and not 0 < given.expires <= _MAX_DAYS:
        raise InputError(f"--expires must be a number of days above 0, not {given.expires:g}")
    expires = None if given.expires is None else time.time() + given.expires * _DAY_SECONDS
    secret, token = new_token(
        given.names[0], scopes=given.scope or ("read", "run"), expires=expires, budget=read_budget(given.budget)
    )
    store.add(token)
    note(f"token {token.id} of {token.owner}; it is shown only once")
    print_result(secret)


def _revoke(store: TokenStore, given: argparse.Namespace) -> None:
    if not given.names:
        raise InputError("name the owners or ids of the tokens to revoke; 'coc tokens list' lists them")
    valid = _valid(store)
    for name in given.names:
        if not any(name in (token.id, token.owner) for token in valid):
            raise InputError(f"there is no token {name!r}; 'coc tokens list' lists them")
    revoked = [token for token in valid if {token.id, token.owner} & set(given.names)]
    store.revoke([token.id for token in revoked], round(time.time(), 3))
    for token in revoked:
        print_line(f"{token.id} of {token.owner}: revoked")


def _list(store: TokenStore, given: argparse.Namespace) -> None:
    tokens = store.tokens() if given.all else _valid(store)
    tokens = [token for token in tokens if not given.names or {token.id, token.owner} & set(given.names)]
    if given.json:
        print_json([_record(token) for token in tokens])
        return
    for token in tokens:
        budget = " ".join(f"{which}={limit:g}" for which, limit in token.budget.items())
        print_line(f"{token.id}  {token.owner:<20} {','.join(token.scopes):<12} {_state(token)}  {budget}".rstrip())
    if not tokens:
        note("no tokens; 'coc tokens add NAME' adds one")


_ACTIONS = {"list": _list, "add": _add, "revoke": _revoke}


def _valid(store: TokenStore) -> list[AccessToken]:
    now = time.time()
    return [token for token in store.tokens() if token.is_valid(now)]


def _state(token: AccessToken) -> str:
    if token.revoked is not None:
        return f"revoked {_day(token.revoked)}"
    if token.expires is None:
        return "valid"
    return f"{'valid until' if token.is_valid(time.time()) else 'expired'} {_day(token.expires)}"


def _day(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _record(token: AccessToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "owner": token.owner,
        "scopes": list(token.scopes),
        "created": token.created,
        "expires": token.expires,
        "revoked": token.revoked,
        "budget": token.budget,
    }
