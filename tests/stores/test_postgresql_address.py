"""The address of a store in PostgreSQL: how it is parsed, and that passwords in it are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import UsageError
from proctor.stores.postgresql.address import PostgresAddress, parse_address, replace_user


@pytest.mark.parametrize(
    ("location", "fields"),
    [
        (
            "ana@db.example.com:5433/evals",
            {"user": "ana", "host": "db.example.com", "port": "5433", "dbname": "evals"},
        ),
        ("db/evals", {"host": "db", "dbname": "evals"}),
        ("/evals", {"dbname": "evals"}),
        ("", {}),
        ("ana@", {"user": "ana"}),
        (":5433/evals", {"port": "5433", "dbname": "evals"}),
        ("[::1]:5433/evals", {"host": "::1", "port": "5433", "dbname": "evals"}),
        ("a:5433,b/evals", {"host": "a,b", "port": "5433,5432", "dbname": "evals"}),
        ("a,b/evals?port=5433", {"host": "a,b", "port": "5433,5433", "dbname": "evals"}),
        ("%2Ftmp%2Fpg/evals", {"host": "/tmp/pg", "dbname": "evals"}),
        ("/evals?host=/tmp/pg&user=ana", {"host": "/tmp/pg", "user": "ana", "dbname": "evals"}),
        ("ana%40corp@db/caf%C3%A9%20evals", {"user": "ana@corp", "host": "db", "dbname": "café evals"}),
    ],
)
def test_a_url_is_read_as_libpq_reads_it(location: str, fields: dict[str, str]) -> None:
    address = parse_address(location)
    defaults = {"fallback_application_name": "proctor", "connect_timeout": "10"}
    assert address.connection_fields({}) == {**defaults, **fields}
    assert address.url == f"postgresql://{location}"
    assert address.schema == "proctor"


def test_libpq_reads_the_same_from_the_url() -> None:
    psycopg_conninfo = pytest.importorskip("psycopg.conninfo")
    for location in ("ana@db:5433/evals", "[::1]:1/x", "a:5433,b:5432/evals?sslmode=require", "%2Ftmp/e%20f"):
        expected = psycopg_conninfo.conninfo_to_dict(f"postgresql://{location}")
        fields = parse_address(location).connection_fields({"PGCONNECT_TIMEOUT": "3"})
        del fields["fallback_application_name"]
        assert fields == expected


def test_the_schema_is_an_option_and_others_are_those_of_libpq() -> None:
    address = parse_address("db/evals?schema=team_a&sslmode=require&connect_timeout=3")
    assert (address.schema, address.name) == ("team_a", "evals/team_a")
    assert parse_address("db/evals").name == "evals"
    fields = address.connection_fields({})
    assert (fields["sslmode"], fields["connect_timeout"], "schema" in fields) == ("require", "3", False)


@pytest.mark.parametrize(
    "location",
    [
        "ana:hunter2@db/evals",
        "ana:@db/evals",
        ":hunter2@db/evals",
        "ana:hun@ter2@db/evals",
        "ana:hun/ter2@db/evals",
        "ana:hun?ter2@db/evals",
        "ana:hun#ter2@db/evals",
        "ana:hun ter2@db/evals",
        "ana:hunter2",
        "db/evals?password=hunter2",
        "db/evals?pass%77ord=hunter2",
        "db/evals?sslpassword=hunter2",
        "db/evals?pasword=hunter2",
        "ana:%zzhunter2@db/evals",
        "[ana:hunter2@db/evals",
    ],
)
def test_a_password_is_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(UsageError) as error_info:
        parse_address(location)
    message = str(error_info.value)
    assert not {"hunter2", "ter2", "hun@"} & set(message.split())
    assert "hunter2" not in message
    assert "ter2" not in message


def test_the_refusal_of_a_password_says_where_it_belongs() -> None:
    with pytest.raises(UsageError, match=r"PGPASSWORD.*~/\.pgpass.*PGPASSFILE"):
        parse_address("ana:hunter2@db/evals")


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("db:0/evals", "1 to 65535"),
        ("db:70000/evals", "1 to 65535"),
        ("db:x/evals", "1 to 65535"),
        ("[::1/evals", "IPv6"),
        ("[db]/evals", "IPv6"),
        ("[::g]/evals", "IPv6"),
        ("db/a%2", "%25"),
        ("db/a%FF", "%25"),
        ("db/a%00", "%25"),
        ("db/e vals", "%20"),
        ("db/e#vals", "%23"),
        ("db/e@vals", "%40"),
        ("db/evals?sslmod=require", "Did you mean 'sslmode'"),
        ("db/evals?sslmode=on", "sslmode"),
        ("db/evals?sslmode", "unknown option"),
        ("db/evals?service=prod", "unknown option"),
        ("db/evals?schema=a&schema=b", "twice"),
        ("db/evals?schema=Team-A", "lower-case"),
        ("db/evals?schema=pg_x", "lower-case"),
        ("db/evals?schema=information_schema", "lower-case"),
        ("db/evals?schema=a_trash", "deleted suites of the store 'a'"),
        ("a,b/evals?port=1,2,3", "numbers of ports"),
    ],
)
def test_a_malformed_address_is_an_error(location: str, message: str) -> None:
    with pytest.raises(UsageError) as error_info:
        parse_address(location)
    assert message in str(error_info.value)
    assert str(error_info.value).endswith((".", "?"))


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_an_error(location: str) -> None:
    try:
        address = parse_address(location)
    except UsageError:
        return
    assert isinstance(address, PostgresAddress)
    assert address.connection_fields({})


@pytest.mark.parametrize(
    ("location", "environ", "expected"),
    [
        ("localhost/x", {}, True),
        ("LOCALHOST./x", {}, True),
        ("127.1.2.3/x", {}, True),
        ("[::1]/x", {}, True),
        ("%2Ftmp/x", {}, True),
        ("/x", {}, True),
        ("db/x", {}, False),
        ("10.0.0.1/x", {}, False),
        ("localhost.example.com/x", {}, False),
        ("127.0.0.1,db/x", {}, False),
        ("0.0.0.0/x", {}, False),
        ("/x", {"PGHOST": "db"}, False),
        ("/x", {"PGHOST": "localhost"}, True),
        ("localhost/x", {"PGHOST": "db"}, True),
        ("localhost/x", {"PGHOSTADDR": "10.0.0.1"}, False),
        ("localhost/x", {"PGHOSTADDR": "127.0.0.1"}, True),
        ("/x", {"PGSERVICE": "prod"}, False),
        ("localhost/x", {"PGSERVICE": "prod"}, True),
    ],
)
def test_which_servers_are_on_this_machine(location: str, environ: dict[str, str], expected: bool) -> None:
    assert parse_address(location).is_on_this_machine(environ) is expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("ana@h:1/x?schema=s", "o%40@h:1/x?schema=s"),
        ("h/x?user=ana", "o%40@h/x"),
        ("/x?user=ana&schema=s", "o%40@/x?schema=s"),
        ("[::1]", "o%40@[::1]"),
    ],
)
def test_the_user_of_an_address_is_replaced(location: str, expected: str) -> None:
    address = replace_user(f"postgresql://{location}", "o@")
    assert address == f"postgresql://{expected}"
    assert parse_address(address.removeprefix("postgresql://")).user == "o@"
