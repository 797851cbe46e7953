"""What only the baseline can tell is wrong with a measurement: facts stored with both, compared."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

import msgspec

from suite.gate.baselines import Baseline
from suite.gate.invalid import no_cuda_graphs, power_capped
from suite.gate.records import Invalid, Scalar, Series, Session


def beside_baselines(session: Session, baselines: Mapping[tuple[str, str], Baseline]) -> Session:
    """The session with every launch marked invalid that its baseline shows to have been disturbed."""
    series = [_checked(one, baselines.get((one.question, one.arm))) for one in session.series]
    return msgspec.structs.replace(session, series=series)


def reasons(series: Series, baseline: Baseline) -> list[Invalid]:
    """Reasons from the facts of a series and of the newest session it is compared with."""
    now, before = series.subject, baseline.current.subject
    found = [no_cuda_graphs(_truth(now.get("decode_cuda_graphs")), _truth(before.get("decode_cuda_graphs")))]
    clocks = [launch.clocks["sm_clock_mhz"] for launch in baseline.current.launches if launch.clocks]
    if clocks:
        level = {"sm_clock_mhz": median(clocks)}
        found += [power_capped(launch.clocks, level) for launch in series.launches][:1]
    return [reason for reason in found if reason is not None]


def _checked(series: Series, baseline: Baseline | None) -> Series:
    found = reasons(series, baseline) if baseline is not None else []
    if not found:
        return series
    launches = [
        msgspec.structs.replace(launch, invalid=[*found, *launch.invalid]) for launch in series.launches
    ]
    return msgspec.structs.replace(series, launches=launches)


def _truth(value: Scalar) -> bool | None:
    return value if isinstance(value, bool) else None
