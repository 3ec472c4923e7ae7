//! Leaders with agents that only send messages.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use lucarne_load::summary::{SCHEMA, ScenarioSummary, Series};
use lucarne_load::threshold::{Threshold, ThresholdResult};
use lucarne_load::{Histogram, Metric, Outcome, Summary, Verdict};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::super::settings;
use super::bundle::{Bundle, BundleError};
use super::key::Key;
use super::lead::{JoinError, join};
use super::leader::{Joined, Leader, LostAgents};
use super::link::{Clock, LARGEST, Link, LinkError, SILENCE, Side, read_frame};
use super::message::{Ending, News, Order};
use super::tls::TlsFlags;

const KEY: &str = "0123456789abcdef0123456789abcdef";
/// Limit of everything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

type ToLeader = Link<News, Order>;

fn side(key: &str, version: &str) -> Side {
    Side {
        key: Key::new(key),
        version: version.to_owned(),
        silence: SILENCE,
    }
}

/// Opens a connection between both sides, and returns both ends.
async fn connect(
    leader: &Side,
    agent: &Side,
) -> (
    Result<Link<Order, News>, LinkError>,
    Result<(ToLeader, Clock), LinkError>,
) {
    let flags = TlsFlags::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = flags.leader().unwrap();
    let accepting = async {
        let (stream, _) = listener.accept().await.unwrap();
        leader.accept(stream, tls).await
    };
    let connecting = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        agent.connect(stream, flags.agent().unwrap(), name).await
    };
    tokio::join!(accepting, connecting)
}

#[tokio::test]
async fn both_sides_prove_that_they_have_the_key() {
    let (leader, agent) = connect(&side(KEY, "1"), &side(KEY, "1")).await;
    let (mut leader, (mut agent, clock)) = (leader.unwrap(), agent.unwrap());
    assert_eq!(clock.difference(), 0, "{clock:?}");
    let now = SystemTime::now();
    let here = clock.here(super::link::nanos(now));
    let apart = here
        .duration_since(now)
        .unwrap_or_else(|early| early.duration());
    assert!(apart < PATIENCE, "{apart:?}");
    agent.send(&News::Refused("no".into())).await;
    let news = leader.next().await.unwrap();
    assert!(matches!(news, News::Refused(why) if why == "no"));
    leader.send(&Order::End(Ending::Stopped)).await;
    let order = agent.next().await.unwrap();
    assert!(matches!(order, Order::End(Ending::Stopped)));
    agent.close().await;
    assert!(matches!(
        leader.next().await,
        Err(LinkError::Closed | LinkError::Io(_))
    ));
}

#[tokio::test]
async fn another_key_and_another_version_are_refused() {
    let other = "fedcba9876543210fedcba9876543210";
    let (leader, agent) = connect(&side(KEY, "1"), &side(other, "1")).await;
    assert!(matches!(leader.err(), Some(LinkError::Key)));
    assert_eq!(
        agent.err().unwrap().to_string(),
        "it has another key: use the same --key on all machines"
    );
    let (leader, agent) = connect(&side(KEY, "1"), &side(KEY, "2")).await;
    assert_eq!(
        leader.err().unwrap().to_string(),
        "its version is 2, and the version here is 1: use the same version"
    );
    assert!(matches!(agent.err(), Some(LinkError::Version { .. })));
}

#[tokio::test]
async fn a_frame_of_a_gigabyte_is_refused_before_it_is_read() {
    let frame = (1_u32 << 30).to_be_bytes();
    let error = read_frame(&mut &frame[..], LARGEST, SILENCE).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "a frame has 1073741824 bytes, expected at most 67108864"
    );
    let cut = [0, 0, 0, 9, 1, 2];
    let error = read_frame(&mut &cut[..], LARGEST, SILENCE).await;
    assert!(matches!(error, Err(LinkError::Closed)));
}

#[tokio::test]
async fn a_leader_without_agents_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let tls = TlsFlags::default().leader().unwrap();
    let joined = join(listener, tls, side(KEY, "1"), 2, Duration::ZERO, |_| ()).await;
    let why = joined.unwrap().err().unwrap();
    assert!(matches!(
        why,
        JoinError::Late {
            joined: 0,
            agents: 2,
            ..
        }
    ));
    assert_eq!(
        why.to_string(),
        "--agents: 0 of 2 agents joined within 0ns: start the agents first, or use a longer --wait"
    );
}

/// Returns the summary of a part with this number of orders.
fn part(orders: u64) -> Summary {
    let mut durations = Histogram::new();
    for number in 0..orders {
        durations.record(Duration::from_micros(1000 + 7 * number));
    }
    let metrics = [
        ("orders".to_owned(), Metric::Counter { count: orders }),
        ("order_duration".to_owned(), Metric::Trend(durations)),
    ];
    Summary {
        schema: SCHEMA.into(),
        started: 1,
        duration: 1.0,
        scenarios: vec![ScenarioSummary {
            name: "s".into(),
            asked: orders,
            started: orders,
            completed: orders,
            ..ScenarioSummary::default()
        }],
        series: vec![Series {
            tags: vec![("scenario".into(), "s".into())],
            metrics: metrics.into(),
        }],
        thresholds: vec![ThresholdResult {
            metric: "orders".into(),
            expression: "count<10".into(),
            passed: orders < 10,
            ..ThresholdResult::default()
        }],
        lasting_failures: Some(Vec::new()),
        ..Summary::default()
    }
}

fn bundle() -> Bundle {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("plan.yaml");
    std::fs::write(
        &path,
        "scenarios: {a: {scenario: rest, executor: constant-vus, vus: 1, duration: 1s, options: \
         {url: 'http://127.0.0.1:9'}}}",
    )
    .unwrap();
    Bundle::read(&path, &flags()).unwrap().0
}

fn flags() -> settings::Flags {
    settings::Flags {
        seed: Some(7),
        ..settings::Flags::default()
    }
}

/// Starts a leader with two agents. The leader waits this long for signs of life.
async fn start(
    silence: Duration,
    lost_agents: LostAgents,
) -> (JoinHandle<Outcome>, [ToLeader; 2], mpsc::Sender<Ending>) {
    let patient = Side {
        silence,
        ..side(KEY, "1")
    };
    let (mut joined, mut agents) = (Vec::new(), Vec::new());
    for name in ["first", "second"] {
        let (leader, agent) = connect(&patient, &side(KEY, "1")).await;
        joined.push(Joined {
            name: name.to_owned(),
            link: leader.unwrap(),
        });
        agents.push(agent.unwrap().0);
    }
    let bundle = bundle();
    let mut threshold = Threshold::new("orders", "count<10").unwrap();
    threshold.abort_on_fail = true;
    let leader = Leader::new(joined, bundle.hash(), &[threshold], lost_agents, |_| ());
    let (endings, ended) = mpsc::channel(1);
    let outcome = tokio::spawn(async move { leader.lead(&bundle, ended).await });
    let agents = agents.try_into().ok().unwrap();
    (outcome, agents, endings)
}

/// Waits for an order.
async fn order(agent: &mut ToLeader) -> Order {
    tokio::time::timeout(PATIENCE, agent.next())
        .await
        .unwrap()
        .unwrap()
}

/// Prepares the agents, and waits for the start.
async fn prepare(agents: &mut [ToLeader; 2]) {
    for (agent, part) in agents.iter_mut().zip(["1/2", "2/2"]) {
        let Order::Prepare { part: mine, bundle } = order(agent).await else {
            panic!("the first order is to prepare");
        };
        assert_eq!(mine, part);
        let plan = bundle.hash();
        agent.send(&News::Prepared { plan, clock: 0 }).await;
    }
    for agent in agents {
        assert!(matches!(order(agent).await, Order::Start { .. }));
    }
}

async fn finish(agent: &mut ToLeader, summary: Summary) {
    let summary = Box::new(summary);
    agent
        .send(&News::Finished {
            summary,
            error: None,
        })
        .await;
    while !matches!(order(agent).await, Order::Received) {}
}

#[tokio::test]
async fn the_sum_equals_the_merged_parts() {
    let (outcome, mut agents, _endings) = start(PATIENCE, LostAgents::Fail).await;
    prepare(&mut agents).await;
    for (agent, orders) in agents.iter_mut().zip([4, 5]) {
        finish(agent, part(orders)).await;
    }
    let outcome = outcome.await.unwrap();
    assert_eq!(outcome.verdict, Verdict::Passed);
    assert_eq!(outcome.error, None);
    let json = |summary: &Summary| serde_json::to_string(summary).unwrap();
    // `load merge` reads files, too.
    let file = |orders| serde_json::from_str(&json(&part(orders))).unwrap();
    let merged = Summary::merge(vec![file(4), file(5)]).unwrap();
    assert_eq!(json(&outcome.summary), json(&merged));
}

#[tokio::test]
async fn thresholds_end_the_run_by_the_sum_of_all_parts() {
    let (outcome, mut agents, _endings) = start(PATIENCE, LostAgents::Fail).await;
    prepare(&mut agents).await;
    // Neither part crosses the threshold.
    for agent in &agents {
        agent.send(&News::Progress(Box::new(part(6)))).await;
    }
    for agent in &mut agents {
        assert!(matches!(order(agent).await, Order::End(Ending::Aborted)));
        finish(agent, part(6)).await;
    }
    let outcome = outcome.await.unwrap();
    assert_eq!(outcome.verdict, Verdict::Crossed);
    let result = &outcome.summary.thresholds[0];
    assert!(result.aborted && !result.passed && result.observed == Some(12.0));
}

#[tokio::test]
async fn an_agent_that_is_killed_during_the_merge_fails_the_run() {
    for (lost_agents, verdict) in [
        (LostAgents::Fail, Verdict::Crossed),
        (LostAgents::Continue, Verdict::Passed),
    ] {
        let (outcome, mut agents, _endings) = start(PATIENCE, lost_agents).await;
        prepare(&mut agents).await;
        let [mut first, second] = agents;
        second.send(&News::Progress(Box::new(part(3)))).await;
        // The connection ends without the result.
        second.close().await;
        let fails = lost_agents == LostAgents::Fail;
        let finished = News::Finished {
            summary: Box::new(part(4)),
            error: fails.then(|| "stopped before its start".to_owned()),
        };
        first.send(&finished).await;
        while !matches!(order(&mut first).await, Order::Received) {}
        let outcome = outcome.await.unwrap();
        assert_eq!(outcome.verdict, verdict, "{:?}", outcome.summary.notes);
        let orders = outcome.summary.select("orders", &[]).unwrap();
        assert_eq!(orders.samples(), 7, "the samples so far");
        let note = &outcome.summary.notes[0];
        assert!(
            note.lines[0].starts_with("agent second (part 2/2) was lost "),
            "{note:?}"
        );
        let error = outcome
            .error
            .filter(|error| error.starts_with("agent second "));
        assert_eq!(error.is_some(), fails, "{error:?}");
    }
}

#[tokio::test]
async fn an_agent_without_a_sign_of_life_is_lost() {
    // The agents send a sign of life each second.
    let silence = Duration::from_millis(50);
    let (outcome, _agents, _endings) = start(silence, LostAgents::Fail).await;
    let outcome = tokio::time::timeout(PATIENCE, outcome)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(outcome.verdict, Verdict::Crossed);
    let error = outcome.error.unwrap();
    assert!(
        error.contains("was lost before the load: there was no sign of life for 50ms"),
        "{error}"
    );
}

#[tokio::test]
async fn a_lost_agent_that_is_alive_loses_its_leader() {
    let (outcome, mut agents, _endings) = start(PATIENCE, LostAgents::Continue).await;
    prepare(&mut agents).await;
    let [mut first, mut second] = agents;
    let impossible = Summary {
        duration: -1.0,
        ..part(3)
    };
    second.send(&News::Progress(Box::new(impossible))).await;
    let ended = tokio::time::timeout(PATIENCE, second.next()).await.unwrap();
    assert!(matches!(ended, Err(LinkError::Closed | LinkError::Io(_))));
    finish(&mut first, part(4)).await;
    assert_eq!(outcome.await.unwrap().verdict, Verdict::Passed);
}

#[tokio::test]
async fn an_agent_with_another_plan_ends_the_run() {
    let (outcome, mut agents, _endings) = start(PATIENCE, LostAgents::Fail).await;
    for agent in &mut agents {
        assert!(matches!(order(agent).await, Order::Prepare { .. }));
    }
    let (plan, clock) = ("00ff".to_owned(), 0);
    agents[1].send(&News::Prepared { plan, clock }).await;
    for agent in &mut agents {
        assert!(matches!(order(agent).await, Order::End(Ending::Aborted)));
        finish(agent, part(0)).await;
    }
    let outcome = outcome.await.unwrap();
    assert_eq!(outcome.verdict, Verdict::Configuration);
    let error = outcome.error.unwrap();
    assert!(
        error.starts_with("agent second has another plan: expected the hash "),
        "{error}"
    );
    assert!(error.ends_with(", found 00ff"), "{error}");
}

#[tokio::test]
async fn clocks_that_differ_are_a_warning() {
    let (outcome, mut agents, _endings) = start(PATIENCE, LostAgents::Fail).await;
    for (agent, clock) in agents.iter_mut().zip([50, i64::MIN]) {
        let Order::Prepare { bundle, .. } = order(agent).await else {
            panic!("the first order is to prepare");
        };
        let plan = bundle.hash();
        agent.send(&News::Prepared { plan, clock }).await;
    }
    for agent in &mut agents {
        assert!(matches!(order(agent).await, Order::Start { .. }));
        finish(agent, part(1)).await;
    }
    let outcome = outcome.await.unwrap();
    assert_eq!(outcome.verdict, Verdict::Passed);
    let notes = &outcome.summary.notes;
    assert_eq!(
        notes[0].lines,
        ["the clock of agent second differs by 9223372036854775808 ms"]
    );
}

#[tokio::test]
async fn a_stop_of_the_user_reaches_all_agents() {
    let (outcome, mut agents, endings) = start(PATIENCE, LostAgents::Fail).await;
    prepare(&mut agents).await;
    endings.send(Ending::Stopped).await.unwrap();
    for agent in &mut agents {
        assert!(matches!(order(agent).await, Order::End(Ending::Stopped)));
        let stopped = Summary {
            verdict: Verdict::Interrupted,
            ..part(1)
        };
        finish(agent, stopped).await;
    }
    assert_eq!(outcome.await.unwrap().verdict, Verdict::Interrupted);
}

#[test]
fn certificates_authenticate_both_sides() {
    let pki = lucarne_mint::testing::Pki::shared();
    let here = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = here.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        path
    };
    let options = lucarne_mint::LeafOptions::for_names(["localhost"]).unwrap();
    let leaf = pki.root.issue(&options).unwrap();
    let key = lucarne_mint::pem::encode("PRIVATE KEY", &options.key.to_pkcs8().unwrap());
    let with = TlsFlags {
        cert: Some(write(
            "cert.pem",
            &lucarne_mint::pem::encode("CERTIFICATE", &leaf),
        )),
        cert_key: Some(write("key.pem", &key)),
        ca: Some(write("ca.pem", &pki.root.certificate_pem())),
    };
    let run = |leader: &TlsFlags, agent: &TlsFlags| {
        let (leader, agent) = (leader.leader().unwrap(), agent.agent().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let side = side(KEY, "1");
            let accepting = async {
                let (stream, _) = listener.accept().await.unwrap();
                side.accept::<Order, News>(stream, leader).await.map(drop)
            };
            let connecting = async {
                let stream = TcpStream::connect(address).await.unwrap();
                let name = ServerName::try_from("localhost").unwrap();
                side.connect::<News, Order>(stream, agent, name)
                    .await
                    .map(drop)
            };
            tokio::join!(accepting, connecting)
        })
    };
    let (leader, agent) = run(&with, &with);
    leader.unwrap();
    agent.unwrap();
    let without = TlsFlags::default();
    let (leader, _) = run(&with, &without);
    assert!(matches!(leader, Err(LinkError::Tls(_))), "{leader:?}");
    let (_, agent) = run(&without, &with);
    assert!(matches!(agent, Err(LinkError::Tls(_))), "{agent:?}");
}

#[test]
fn a_plan_arrives_with_its_files_and_variables() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("plan.yaml");
    std::fs::write(
        &path,
        "scenarios: {a: {scenario: rest, executor: constant-vus, vus: 1, duration: 1s, options: \
         {url: 'http://127.0.0.1:${LUCARNE_NO_SUCH_PORT:-9}', data: {users: {file: \
         Cargo.toml/no}}}}}",
    )
    .unwrap();
    // The file of the plan does not exist.
    let lacks = Bundle::read(&path, &flags()).err().unwrap();
    assert!(matches!(lacks, BundleError::Plan), "{lacks}");
    let sent = bundle();
    let json = serde_json::to_vec(&sent).unwrap();
    let received: Bundle = serde_json::from_slice(&json).unwrap();
    assert_eq!(received.hash(), sent.hash());
    let mut value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    value["seed"] = 8.into();
    let other: Bundle = serde_json::from_value(value.clone()).unwrap();
    assert_ne!(other.hash(), sent.hash());
    for outside in ["../plan.yaml", "/tmp/plan.yaml", "", "a/../../b"] {
        let files: BTreeMap<&str, &str> = [(outside, "")].into();
        value["files"] = serde_json::to_value(files).unwrap();
        let wrong: Bundle = serde_json::from_value(value.clone()).unwrap();
        let refused = wrong.unpack(Path::new("/nonexistent")).err().unwrap();
        assert!(
            matches!(refused, BundleError::Path(_)),
            "{outside}: {refused}"
        );
    }
}
