"""Passwords are found in every form of an address, and only passwords."""

from __future__ import annotations

import pytest

from sfumato.text import holds_password, without_passwords

HIDING = [
    "postgresql://me:canary@host:5432/db",
    "postgresql://me:can/ary@host/db",
    "postgresql:/me:canary@host/db",
    "s3:/key:canary@bucket/t.parquet",
    "postgresql://host/db?password=canary",
    "postgresql://host/db?user=me&password=canary#visits",
    "postgresql://host/db?sslpassword=canary&sslkey=k",
    "postgresql://host/db?%70assword=canary",
    "host=h password=canary dbname=d",
    "host=h password = 'can ary\\'s' dbname=d",
    "Server=h;Pwd=canary;Database=d",
    "sc://host:443/;use_ssl=true;token=canary#visits",
    "sc://host:443/;x-api-key=canary;user_id=me#visits",
    "spark+parquet:///visits/?master=sc://host/;token=canary",
]
HARMLESS = [
    "postgresql://me@host:5432/db#visits",
    "postgresql://host/db?passfile=/home/me/.pgpass",
    "../visits.csv",
    "postgresql://me:@host/db",
    "# who knows the password may ask",
    "forgot_password = 3",
    "sc://host:443/;use_ssl=true;user_id=me#visits",
    "SELECT COUNT(*) FROM t WHERE token = 3",
]


@pytest.mark.parametrize("address", HIDING)
def test_a_password_is_found_and_hidden(address: str) -> None:
    assert holds_password(address)
    message = without_passwords(f"could not connect to {address}: refused")
    assert "can" not in message.removeprefix("could not connect to ")
    assert "ary" not in message
    assert message.endswith("refused")


@pytest.mark.parametrize("address", HARMLESS)
def test_what_is_no_password_is_left_alone(address: str) -> None:
    assert not holds_password(address)
    assert without_passwords(address) == address
