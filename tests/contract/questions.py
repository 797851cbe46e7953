"""What both servers are asked: every endpoint that the suite reads or a person scripts against, by name."""

from __future__ import annotations

from .answers import Question
from .shape import Json

PROMPT = "hello world, tell me"
TOKENS = 24


def chat(**more: Json) -> Question:
    """A greedy chat completion of fixed length."""
    messages: Json = [{"role": "user", "content": PROMPT}]
    body: dict[str, Json] = {"model": "tiny", "temperature": 0, "max_tokens": TOKENS, "ignore_eos": True}
    return Question("/v1/chat/completions", {**body, "messages": messages, **more})


def completion(**more: Json) -> Question:
    """A greedy text completion of fixed length."""
    body: dict[str, Json] = {"model": "tiny", "temperature": 0, "max_tokens": TOKENS, "ignore_eos": True}
    return Question("/v1/completions", {**body, "prompt": PROMPT, **more})


def generate(sampling: dict[str, Json] | None = None, **more: Json) -> Question:
    """SGLang's own endpoint."""
    defaults: dict[str, Json] = {"max_new_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    return Question(
        "/generate", {"text": PROMPT, "sampling_params": {**defaults, **(sampling or {})}, **more}
    )


STREAM: dict[str, Json] = {"stream": True}
USAGE: dict[str, Json] = {"stream": True, "stream_options": {"include_usage": True}}
CONTINUOUS: dict[str, Json] = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}
DETAILS: dict[str, Json] = {"return_spec_tokens_details": True}

QUESTIONS: dict[str, Question] = {
    "health": Question("/health", method="GET"),
    "health generate": Question("/health_generate", method="GET"),
    "model info": Question("/model_info", method="GET"),
    "models": Question("/v1/models", method="GET"),
    "chat": chat(),
    "chat with details": chat(**DETAILS),
    "chat, two answers with details": chat(n=2, **DETAILS),
    "chat with meta info": chat(return_meta_info=True),
    "chat streamed": chat(**STREAM),
    "chat streamed with usage": chat(**USAGE),
    "chat streamed with continuous usage": chat(**CONTINUOUS),
    "chat streamed with usage and details": chat(**USAGE, **DETAILS),
    "chat streamed with continuous usage and details": chat(**CONTINUOUS, **DETAILS),
    "chat streamed, two answers with usage and details": chat(n=2, **USAGE, **DETAILS),
    "chat, thinking off": chat(chat_template_kwargs={"enable_thinking": False}, **DETAILS),
    "chat streamed, thinking off": chat(chat_template_kwargs={"enable_thinking": False}, **CONTINUOUS),
    "chat with a stop word": chat(stop=" "),
    "chat of another model": chat(model="another"),
    "chat, bad parameter": chat(max_tokens=-1),
    "chat streamed, bad parameter": chat(max_tokens=-1, **STREAM),
    "chat, wrong type": chat(max_tokens="many"),
    "chat without messages": chat(messages=[]),
    "chat longer than the context": chat(max_tokens=1_000_000),
    "completion": completion(),
    "completion with details": completion(**DETAILS),
    "completion, two answers with details": completion(n=2, **DETAILS),
    "completion streamed": completion(**STREAM),
    "completion streamed with usage and details": completion(**USAGE, **DETAILS),
    "completion streamed with continuous usage and details": completion(**CONTINUOUS, **DETAILS),
    "completion, bad parameter": completion(max_tokens=-1),
    "generate": generate(),
    "generate, two answers": generate({"n": 2}),
    "generate streamed": generate(stream=True),
    "generate, bad parameter": generate({"max_new_tokens": -1}),
    "abort request": Question("/abort_request", {"rid": "no such request"}),
    "unknown path": Question("/no_such_path", method="GET"),
    "server info": Question("/server_info", method="GET"),
    "loads": Question("/v1/loads", method="GET"),
    "metrics": Question("/metrics", method="GET"),
    "flush cache": Question("/flush_cache"),
}

OLD_PATHS = {"/get_model_info": "/model_info", "/get_server_info": "/server_info"}


def questions_for(arm: str) -> dict[str, Question]:
    """All questions, or the chats alone where an arm changes nothing else (a reasoning parser)."""
    return {
        name: question for name, question in QUESTIONS.items() if arm != "thinking" or name.startswith("chat")
    }
