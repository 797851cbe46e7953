"""Secrets stay out of what people see."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import redact
from suite.redact import Secret

secrets = st.lists(st.text(min_size=4, max_size=12).filter(lambda text: "***" not in text), max_size=4)

SECRET_NAMES = [
    *(
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "DB_PASS",
        "SSH_PASSPHRASE",
        "AUTHORIZATION",
        "Proxy-Authorization",
        "hf_token",
    ),
    *(
        "PGPASSWORD",
        "MYSQL_PWD",
        "SSHPASS",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_PAT",
        "JWT",
        "SENTRY_DSN",
        "NPM_AUTH",
    ),
    *(
        "admin-api-key",
        "--api-key",
        "ssl-keyfile-password",
        "apiKey",
        "Cookie",
        "client_secret",
        "S3_CREDENTIALS",
    ),
    *("BEARER_TOKEN", "MY_TOKEN_2", "vault.token", "x-api-key", "REGISTRY_PASSWD"),
]
OTHER_NAMES = [
    *(
        "TOKENIZERS_PARALLELISM",
        "CUDA_VISIBLE_DEVICES",
        "max_total_num_tokens",
        "tokenizer_path",
        "PWD",
        "OLDPWD",
    ),
    *("token_usage", "speculative_token_map", "token_capacity", "SSH_AUTH_SOCK", "ssl_keyfile", "max-tokens"),
    *(
        "speculative-num-draft-tokens",
        "GIT_SSH_KEY_FILE",
        "api_key_env",
        "admin_api_key_env",
        "BYPASS",
        "key",
    ),
    *(
        "sampling_seed",
        "keep_alive",
        "monkey",
        "XAUTHORITY",
        "path",
        "num_forward_pass",
        "TOKENIZER_MODE",
        "",
    ),
]


@given(st.text(), secrets, st.text())
def test_no_secret_is_left_in_a_text(before, hidden, after):
    shown = redact.scrub(before + " ".join(hidden) + after, hidden)
    assert not any(secret in shown.replace("***", "\0") for secret in hidden)


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name):
    assert redact.is_secret(name)
    assert redact.environment({name: "x"}) == {name: "***"}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_that_only_look_like_it(name):
    assert not redact.is_secret(name)
    assert redact.environment({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://robot:hunter22@mirror.example/x", "see https://***@mirror.example/x"),
        ("git+https://ghp_abcdef@github.example/x y@z", "git+https://***@github.example/x y@z"),
        ("Authorization: Bearer sk-1234567", "Authorization: Bearer ***"),
        ("{'Authorization': 'Basic dXNlcjpw'}", "{'Authorization': '***'}"),
        ('{"authorization": "Bearer sk-1234567"}', '{"authorization": "***"}'),
        ("python -m x --api-key sesame --port 1", "python -m x --api-key *** --port 1"),
        ("--hf-token=abc --token-usage=3", "--hf-token=*** --token-usage=3"),
        ("DB_PASS=abc CUDA=0", "DB_PASS=*** CUDA=0"),
        (
            "ServerArgs(api_key='abc', tp_size=8, admin_api_key=None)",
            "ServerArgs(api_key='***', tp_size=8, admin_api_key=None)",
        ),
        ('"hf_token": "a\\"bc", "model": "m"', '"hf_token": "***", "model": "m"'),
        ("mail me@example.org about http://x/y", "mail me@example.org about http://x/y"),
        (
            "#running-req: 1, #token: 512, token usage: 0.01",
            "#running-req: 1, #token: 512, token usage: 0.01",
        ),
    ],
)
def test_what_only_its_place_betrays(text, shown):
    assert redact.scrub(text) == shown


def test_a_secret_never_prints_itself_and_is_found_everywhere_afterwards():
    secret = Secret('pl"anted\\-öß 12')
    for shown in (str(secret), repr(secret), f"{secret}", f"{secret!r}", "%s" % secret, str([secret])):  # noqa: UP031
        assert "anted" not in shown
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert secret.reveal() == 'pl"anted\\-öß 12'
    assert "anted" not in json.dumps(redact.masked({"a": [secret, secret.reveal()]}))
    for written in (secret.reveal(), json.dumps(secret.reveal()), repr([secret.reveal()])):
        assert "anted" not in redact.scrub(f"before {written} after")


def test_nested_values_keep_their_form():
    value = {
        "hf_token": "x",
        "token_usage": 0.5,
        "api_key": None,
        "a": [{"DB_PASS": "p"}, "u://a:b@c"],
        "n": 3,
    }
    assert redact.masked(value) == {
        **value,
        "hf_token": "***",
        "a": [{"DB_PASS": "***"}, "u://***@c"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "environment:\n  HF_TOKEN: hunter-22\n  PLAIN: 1",
        "  - db_password:   hunter-22",
        "password: hunter-22",
        "JWT: hunter-22",
        "curl -H 'X-Api-Key: hunter-22' http://127.0.0.1/",
        'headers = ["x-auth: hunter-22"]',
    ],
)
def test_a_line_of_yaml_and_a_header_in_quotes_are_read_too(text: str) -> None:
    assert redact.scrub(text) == text.replace("hunter-22", redact.MASK)


@pytest.mark.parametrize(
    "text",
    [
        "tokens: many",
        "pass: 12",
        "the next token: word",
        "pass: TPOT +1.0 %",
        "Token: word",
        "api_key_env: NAME",
        "key: value",
    ],
)
def test_a_line_that_names_no_secret_stays(text: str) -> None:
    assert redact.scrub(text) == text
