"""Runs one plan with k6 and with lucarne, and prints the figures and the cost of each."""

import json
import os
import re
import resource
import subprocess
import sys

core, k6, lucarne, here, plan, work = sys.argv[1:]
PERCENTILES = ["med", "p(95)", "p(99)"]
# Scenario and metric that both programs measure. k6 reports a metric for one scenario only if
# the script has a threshold on it.
ROWS = {
    "api": [("issuance_acceptance", "http_req_waiting"), ("list_certificates", "http_req_waiting")],
    "tls": [
        ("handshake", "http_req_connecting"),
        ("handshake", "http_req_tls_handshaking"),
        ("handshake", "http_req_waiting"),
    ],
}[plan]


def cost(command):
    """Returns the user and system time of a command, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["taskset", "-c", core, *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # 99: a threshold was crossed; the figures show it.
    if done.returncode not in (0, 99):
        sys.exit(f"{done.stdout.decode()}\n{' '.join(command)} ended with {done.returncode}")
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def by_k6():
    out = os.path.join(work, "k6.json")
    script = f"{here}/{plan}.js"
    seconds = cost([k6, "run", "--quiet", "--no-usage-report", "--summary-export", out, script])
    metrics = json.load(open(out))["metrics"]

    def row(scenario, metric):
        found = metrics.get(f"{metric}{{scenario:{scenario}}}", metrics[metric])
        return [found[p] for p in PERCENTILES]

    dropped = metrics.get("dropped_iterations", {"count": 0})["count"]
    return seconds, metrics["http_reqs"]["count"], dropped, [row(*names) for names in ROWS]


def by_lucarne():
    out = os.path.join(work, "lucarne.json")
    command = [lucarne, "load", "run", f"{here}/{plan}.yaml", "--quiet", "--summary", out]
    seconds = cost(command)
    summary = json.load(open(out))
    requests = [series for series in summary["series"] if "http_reqs" in series["metrics"]]

    def row(scenario, metric):
        (found,) = [s for s in requests if s["tags"]["scenario"] == scenario]
        return [found["metrics"][metric][p] for p in PERCENTILES]

    count = sum(series["metrics"]["http_reqs"]["count"] for series in requests)
    dropped = sum(scenario["dropped"] for scenario in summary["scenarios"])
    return seconds, count, dropped, [row(*names) for names in ROWS]


def by_openssl():
    """Returns the processor time of one handshake and request of openssl s_time, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    address = os.environ["TARGET"].removeprefix("https://")
    command = ["taskset", "-c", core, "openssl", "s_time", "-connect", address, "-new", "-time", "5", "-www", "/"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    count = int(re.search(rb"(\d+) connections in \d+ real seconds", done.stdout)[1])
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / count


def show(values):
    return " ".join(f"{value:8.3f}" for value in values)


theirs, ours = by_k6(), by_lucarne()
print(f"\n{plan} at {os.environ['RATE']}/s for {os.environ['DURATION']}; p50, p95, p99 in ms")
for (scenario, metric), their, our in zip(ROWS, theirs[3], ours[3]):
    print(f"{scenario + ' ' + metric:46} k6 {show(their)}   lucarne {show(our)}")
print(f"{'requests (dropped)':46} k6 {theirs[1]} ({theirs[2]})   lucarne {ours[1]} ({ours[2]})")
per = [run[0] / run[1] * 1e6 for run in (theirs, ours)]
print(f"{'CPU per request':46} k6 {per[0]:.0f} us   lucarne {per[1]:.0f} us   {per[0] / per[1]:.1f} times")
if plan == "tls":
    print(f"{'CPU per connection of openssl s_time':46} {by_openssl() * 1e6:.0f} us")
