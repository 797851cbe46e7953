"""Keeps every card busy for some seconds with products of matrices, and says how fast each was."""

from __future__ import annotations

import importlib
import json
import threading
import time
from typing import Any

SIZE = 8192
"""Rows and columns: a product is 1.1 TFLOP, large enough that nothing but the card decides."""
AT_ONCE = 8


def main(arguments: list[str]) -> int:
    """``SECONDS``: print ``{"cards": [{"index": 0, "tflops": 310.2}, ...]}``, or ``{"error": ...}``."""
    seconds = float(arguments[0])
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        print(json.dumps({"error": f"no torch here: {error}"}))
        return 0
    if not torch.cuda.is_available():
        print(json.dumps({"error": "torch sees no card"}))
        return 0
    cards: list[dict[str, Any]] = [{"index": index} for index in range(torch.cuda.device_count())]
    threads = [threading.Thread(target=_work, args=(torch, card, seconds)) for card in cards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"cards": cards}))
    return 0


def _work(torch: Any, card: dict[str, Any], seconds: float) -> None:
    try:
        device = torch.device("cuda", card["index"])
        left, right = (torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16) for _ in range(2))
        torch.mm(left, right)
        torch.cuda.synchronize(device)
        began, products = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            for _ in range(AT_ONCE):
                torch.mm(left, right)
            torch.cuda.synchronize(device)
            products += AT_ONCE
        card["tflops"] = 2.0 * SIZE**3 * products / (time.monotonic() - began) / 1e12
    except Exception as error:  # one card's failure is told beside the others' figures
        card["error"] = f"{type(error).__name__}: {error}"[:300]
