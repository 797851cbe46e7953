"""Does the log of a server that answers well say that something is wrong?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.log, pytest.mark.once]


@pytest.mark.arms("mtp-off", "mtp-on")
def test_log_is_clean(log, answers):
    """No decoding without CUDA graphs, no NaN, no survived error in the log, once some requests were answered."""
    answers.note()
    log.must_be_clean()
