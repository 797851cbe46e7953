"""Secrets stay out of what people see."""

from hypothesis import given
from hypothesis import strategies as st

from suite import redact

secrets = st.lists(st.text(min_size=4, max_size=12).filter(lambda text: "***" not in text), max_size=4)


@given(st.text(), secrets, st.text())
def test_no_secret_is_left_in_a_text(before, hidden, after):
    shown = redact.scrub(before + " ".join(hidden) + after, hidden)
    assert not any(secret in shown.replace("***", "\0") for secret in hidden)


def test_variables_that_hold_secrets_are_masked_and_others_are_not():
    shown = redact.environment(
        {"HF_TOKEN": "x", "OPENAI_API_KEY": "y", "TOKENIZERS_PARALLELISM": "1", "CUDA": "0"}
    )
    assert shown == {"HF_TOKEN": "***", "OPENAI_API_KEY": "***", "TOKENIZERS_PARALLELISM": "1", "CUDA": "0"}
