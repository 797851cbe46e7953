"""What one measurement found: its figures, floors to hold them to, and why it may not be believed."""

from __future__ import annotations

from suite import metrics
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.session.recording import WorkloadResult


class Measurement:
    """What one ``measure`` call found in this launch.

    ``silence`` says why a server of this release may not tell its acceptance; ``None`` where it would.
    """

    def __init__(self, played: WorkloadResult, silence: str | None = None) -> None:
        self.played = played
        self._silence = silence

    def __getitem__(self, metric: str) -> float | None:
        """The median of a metric over the rounds; ``None`` where the server does not report it."""
        return self.played.median(metric)

    def require_at_least(self, metric: str, floor: float, otherwise: str) -> None:
        """Assert a floor that holds whatever the baseline says.

        Raises:
            BrokenPromise: the metric is missing, or below the floor; ``otherwise`` says what that means.
            InvalidMeasurement: it is missing, and a server of this release may not tell it.
        """
        label = metrics.METRICS[metric].label
        value = self[metric]
        if value is None and self._silence is not None:
            raise InvalidMeasurement(f"{label} unknown: {self._silence}")
        if value is None:
            raise BrokenPromise(f"{label} unknown: {self.played.reason(metric)}")
        if value < floor:
            raise BrokenPromise(f"{label} {value:.3f} is below the floor of {floor:g}: {otherwise}")

    def require_reuse(self, share: float) -> None:
        """Assert that at least ``share`` of what could come from the prefix cache did.

        In each round every request but the first can take the shared prefix from the cache.

        Raises:
            BrokenPromise: less came from there, or the server does not tell.
        """
        good = [record for round_ in self.played.rounds for record in round_.ok]
        told = [
            (record.cached_tokens, record.prompt_tokens)
            for record in good
            if record.cached_tokens is not None and record.prompt_tokens is not None
        ]
        if not told:
            raise BrokenPromise(f"prefix reuse unknown: {self.played.reason('cached_prompt_tokens')}")
        cached, prompt = sum(tokens for tokens, _ in told), sum(tokens for _, tokens in told)
        possible = prompt * (1 - len(self.played.rounds) / len(told))
        if cached < share * possible:
            raise BrokenPromise(
                f"prefix reuse lost: {cached} of {prompt} prompt tokens came from the cache although all requests of "
                f"a round begin alike; at least {share * possible:.0f} must"
            )

    def per_position(self) -> dict[str, float]:
        """The share of verify steps in which the draft at each position was right, over all rounds."""
        told = [values["acceptance_length"].detail for values in self.played.values]
        details = [detail for detail in told if detail.get("verify_steps")]
        steps = sum(detail["verify_steps"] for detail in details)
        return {
            name: sum(d[name] * d["verify_steps"] for d in details if name in d) / steps
            for name in (details[0] if details else ())
            if name.startswith("position_")
        }


def require_answers(played: WorkloadResult) -> None:
    """Some request of some round must have been answered wholly, or there is nothing to judge.

    Raises:
        InvalidMeasurement: none was; the text names the first fault.
    """
    requests = [request for round_ in played.rounds for request in round_.requests]
    if any(request.ok for request in requests):
        return
    first = requests[0].fault if requests else "no request was sent"
    raise InvalidMeasurement(f"nothing was measured: all {len(requests)} requests failed, the first: {first}")
