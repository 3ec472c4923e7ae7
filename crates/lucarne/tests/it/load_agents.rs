//! Load tests by several processes.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lucarne_testkit::{EVENT_TIMEOUT, Launch, Server, Signal, free_port, temp_dir};
use serde_json::Value as Json;

use crate::common::{LUCARNE, assert_has, lucarne};
use crate::load_live::target;

const AGENTS: usize = 3;

/// Writes a plan for this time, its data, and a key.
fn write_plan(here: &Path, duration: &str) {
    let plan = format!(
        "scenarios:\n  orders:\n    scenario: rest\n    executor: constant-arrival-rate\n    rate: 60\n    \
         duration: {duration}\n    minAchieved: 0\n    options:\n      url: \"${{TARGET}}{{{{users.name}}}}\"\n      data:\n        \
         users: {{ file: data/users.csv }}\n"
    );
    fs::write(here.join("plan.yaml"), plan).unwrap();
    fs::create_dir_all(here.join("data")).unwrap();
    fs::write(here.join("data/users.csv"), "name\na\nb\nc\n").unwrap();
    write_key(here, 32);
}

fn write_key(here: &Path, length: usize) {
    let file = here.join("agents.key");
    fs::write(&file, "k".repeat(length)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Starts a leader and its agents. The agents have other directories, without the plan.
fn start(here: &Path, flags: &[&str]) -> (Server, Vec<Server>) {
    let port = free_port();
    let listen = format!("--listen=127.0.0.1:{port}");
    let key = format!("--key={}", here.join("agents.key").display());
    let count = format!("--agents={AGENTS}");
    let leader = Launch::new(LUCARNE)
        .args(["load", "lead", "plan.yaml", &count, &listen, &key])
        .args(["--summary=whole.json"])
        .args(flags)
        .env("TARGET", target())
        .directory(here)
        .spawn()
        .unwrap();
    let agents = (0..AGENTS).map(|number| {
        let directory = here.join(number.to_string());
        fs::create_dir(&directory).unwrap();
        Launch::new(LUCARNE)
            .args(["load", "agent", &format!("127.0.0.1:{port}"), &key])
            .args(["--summary=part.json"])
            .directory(&directory)
            .spawn()
            .unwrap()
    });
    (leader, agents.collect())
}

fn read(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns the part of an agent's summary, such as `2/3`.
fn part(summary: &Json) -> String {
    let command = summary["command"].as_array().unwrap();
    command.last().unwrap().as_str().unwrap().to_owned()
}

#[test]
fn three_agents_have_the_result_of_one_run() {
    let here = temp_dir();
    write_plan(here.path(), "2s");
    let (mut leader, agents) = start(here.path(), &[]);
    let code = leader.wait(EVENT_TIMEOUT * 2).unwrap().code();
    assert_eq!(code, Some(0), "{}", leader.output());
    for mut agent in agents {
        let code = agent.wait(EVENT_TIMEOUT).unwrap().code();
        assert_eq!(code, Some(0), "{}", agent.output());
    }
    let parts = (0..AGENTS).map(|number| here.path().join(format!("{number}/part.json")));
    let mut parts: Vec<_> = parts.map(|path| (part(&read(&path)), path)).collect();
    parts.sort();
    let names: Vec<_> = parts.iter().map(|(part, _)| part.as_str()).collect();
    assert_eq!(names, ["1/3", "2/3", "3/3"]);
    let mut arguments = vec!["load", "merge", "-o", "merged.json"];
    arguments.extend(parts.iter().map(|(_, path)| path.to_str().unwrap()));
    let (code, said) = lucarne(here.path(), &arguments);
    assert_eq!(code, 0, "{said}");
    let whole = read(&here.path().join("whole.json"));
    let merged = read(&here.path().join("merged.json"));
    assert_eq!(whole["scenarios"][0]["asked"], 120);
    assert_eq!(whole["scenarios"][0]["executor"], "60/s for 2s");
    for figures in [
        "scenarios",
        "series",
        "checks",
        "statuses",
        "protocols",
        "errors",
        "thresholds",
        "started",
    ] {
        assert_eq!(whole[figures], merged[figures], "{figures}");
    }
}

#[test]
fn a_killed_agent_fails_the_run_or_reduces_its_load() {
    for (policy, code) in [("fail", 99), ("continue", 0)] {
        let here = temp_dir();
        write_plan(here.path(), "6s");
        let policy = format!("--lost-agents={policy}");
        let (mut leader, mut agents) = start(here.path(), &[&policy]);
        leader
            .wait_for_output("s 3 of 3 agents, ", EVENT_TIMEOUT)
            .unwrap();
        agents[1].signal(Signal::KILL).unwrap();
        let ended = leader.wait(EVENT_TIMEOUT * 2).unwrap().code();
        let said = leader.output();
        assert_eq!(ended, Some(code), "{said}");
        assert_has(&said, ") was lost after ");
        let whole = read(&here.path().join("whole.json"));
        let notes = whole["notes"].to_string();
        assert_has(&notes, "was lost after ");
        assert!(whole["scenarios"][0]["started"].as_u64().unwrap() > 0);
        for (index, agent) in agents.iter_mut().enumerate() {
            let code = agent.wait(EVENT_TIMEOUT).unwrap().code();
            assert_eq!(code, (index != 1).then_some(0), "{}", agent.output());
        }
    }
}

#[test]
fn wrong_leaders_and_agents_are_refused() {
    let here = temp_dir();
    write_plan(here.path(), "1s");
    let lead = |listen: &str| {
        let listen = format!("--listen={listen}");
        let fixed = [
            "load",
            "lead",
            "plan.yaml",
            "--agents=2",
            "--wait=0s",
            "--key=./agents.key",
        ];
        let arguments = [&fixed[..], &[listen.as_str()]].concat();
        lucarne(here.path(), &arguments)
    };
    fs::write(
        here.path().join("plan.yaml"),
        "scenarios: {a: {scenario: rest, executor: constant-vus, vus: 1, duration: 1s, options: \
         {url: 'http://127.0.0.1:9'}}}",
    )
    .unwrap();
    let (code, said) = lead("127.0.0.1:0");
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "--agents: 0 of 2 agents joined within 0ns");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = lead(&address);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, &format!("--listen: cannot listen on {address}: "));
    drop(taken);
    let agent = || {
        lucarne(
            here.path(),
            &["load", "agent", &address, "--key=./agents.key", "--wait=0s"],
        )
    };
    let (code, said) = agent();
    assert_eq!(code, 104, "{said}");
    assert_has(&said, &format!("cannot reach the leader {address}: "));
    write_key(here.path(), 31);
    for (code, said) in [lead("127.0.0.1:0"), agent()] {
        assert_eq!(code, 104, "{said}");
        assert_has(
            &said,
            "--key: ./agents.key has 31 characters, expected at least 32",
        );
    }
}

#[test]
fn wrong_parts_are_refused() {
    let here = temp_dir();
    fs::write(
        here.path().join("plan.yaml"),
        "scenarios: {a: {scenario: rest, executor: constant-vus, vus: 1, duration: 1s, options: \
         {url: 'http://127.0.0.1:9'}}}",
    )
    .unwrap();
    for (flag, expected) in [
        (
            "--part=4/3",
            "--part: part 4 of 3 does not exist: expected 1/3 to 3/3",
        ),
        (
            "--start-at=2020-01-01T00:00:00Z",
            "--start-at: 2020-01-01T00:00:00Z is in the past: choose a later time",
        ),
        ("--start-at=soon", "--start-at: `soon` "),
    ] {
        let (code, said) = lucarne(here.path(), &["load", "run", "plan.yaml", flag]);
        assert_eq!(code, 104, "{said}");
        assert_has(&said, expected);
    }
}
