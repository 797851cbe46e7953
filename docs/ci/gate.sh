#!/usr/bin/env bash
# What a CI job runs: go, no-go or cannot tell, with the suite's own exit status; 8 (cannot tell) is asked once more.
#
# TARGET     of suite.toml
# CANDIDATE  a build (docs/upgrade.md): an image, a release, nightly:DATE; own: what the target launches
# MINUTES    of one try; the job's own limit must be above twice that
# RESULTS    a folder that outlives the job: history, the last good build, the report's history are in it
# BUDGET     how much to measure; empty: the suite's default
#
# The candidate takes turns with the last good build. Until a build has passed here, the box is held to its baselines.
# Leaves for the job to keep: run/ (what was measured, summary.md), junit.xml, allure-results/, allure-report/.
set -u
python=${PYTHON:-.venv/bin/python}

question=(--reference known-good --candidate "$CANDIDATE")
"$python" -m suite known-good --target "$TARGET" --results "$RESULTS" --path >/dev/null || question=(--require-baseline)
[ -z "${BUDGET:-}" ] || question+=(--budget "$BUDGET")

keep() {
  mkdir -p run
  find "$RESULTS" -mindepth 2 -maxdepth 2 -name journal.jsonl -newer .started |
    while read -r journal; do cp -r "$(dirname "$journal")" run/; done
}

code=9 cancelled=
gate() {
  "$python" -m pytest -m perf --target "$TARGET" "${question[@]}" --minutes "$MINUTES" --results "$RESULTS" --junitxml=junit.xml --alluredir=allure-results &
  pid=$!
  wait "$pid"; code=$?
  while kill -0 "$pid" 2>/dev/null; do wait "$pid"; code=$?; done
}

touch .started
trap keep EXIT
# A job that is cancelled leaves seconds: the suite ends its servers, judges what there is and writes it.
trap 'cancelled=yes; kill -TERM "$pid"' INT TERM
gate
[ "$code" -ne 8 ] || [ -n "$cancelled" ] || gate
exit "$code"
