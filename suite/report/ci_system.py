"""Which CI job runs this, from the variables that GitHub, GitLab and Jenkins set: for ``executor.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def executor(variables: Mapping[str, str], run_id: str) -> dict[str, Any]:
    """As Allure reads it; outside a CI system the run stands for the build."""
    made = _github(variables) or _gitlab(variables) or _jenkins(variables)
    told = made or {"name": "by hand", "type": "local", "buildName": run_id}
    return {"reportName": run_id, **told}


def _github(variables: Mapping[str, str]) -> dict[str, Any]:
    server, repository, run = (
        variables.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    if not (server and repository and run):
        return {}
    number = variables.get("GITHUB_RUN_NUMBER", "")
    workflow = variables.get("GITHUB_WORKFLOW", repository)
    return _built(
        "GitHub Actions",
        "github",
        f"{workflow} #{number}",
        f"{server}/{repository}/actions/runs/{run}",
        number,
    )


def _gitlab(variables: Mapping[str, str]) -> dict[str, Any]:
    url, number = variables.get("CI_JOB_URL", ""), variables.get("CI_PIPELINE_IID", "")
    if not url:
        return {}
    return _built(
        "GitLab CI", "gitlab", f"{variables.get('CI_PROJECT_PATH', 'pipeline')} #{number}", url, number
    )


def _jenkins(variables: Mapping[str, str]) -> dict[str, Any]:
    url, number = variables.get("BUILD_URL", ""), variables.get("BUILD_NUMBER", "")
    if not (url and variables.get("JENKINS_URL")):
        return {}
    return _built("Jenkins", "jenkins", f"{variables.get('JOB_NAME', 'job')} #{number}", url, number)


def _built(name: str, kind: str, build: str, url: str, number: str) -> dict[str, Any]:
    order = {"buildOrder": int(number)} if number.isdigit() else {}
    return {"name": name, "type": kind, "buildName": build, "buildUrl": url, **order}
