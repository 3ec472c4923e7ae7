//! Upgrades: a process takes over from another process without an effect on clients. If the
//! takeover fails, the other process continues.

mod activation;
mod client;
mod peer;
mod users;

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use lucarne_mint::LeafOptions;
use lucarne_testkit::{LogUnderTest, Server, in_time};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use serde_json::{Value, json};

use self::client::{NAME, Outcome, Protocol, Submitters};
use self::peer::{Asker, hello};
use crate::common::{
    EVENT_TIMEOUT, assert_has, edit, eventually, log, lucarne, pki, ready, run, submission,
};

/// Creates a log whose process can hand over.
fn log_that_hands_over(settings: &str, top: &str) -> LogUnderTest {
    let log = log(settings);
    let file = log.configuration();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("handover: handover.sock\n{top}{text}")).unwrap();
    log
}

/// Starts another process, which takes over.
fn next(log: &LogUnderTest) -> Server {
    log.launch("serve").spawn().unwrap()
}

/// Returns the number in an environment variable.
pub(crate) fn number(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().unwrap())
}

/// Submits over `protocols`, at `rate` per second in total, while `what` runs.
async fn at_load(
    log: &LogUnderTest,
    (protocols, rate): (&[Protocol], usize),
    what: impl AsyncFnOnce(),
) -> (Outcome, Submitters) {
    let submitters = Submitters::of(log);
    let connections = (rate / 2).max(protocols.len());
    let interval = Duration::from_secs(1).mul_f64(connections as f64 / rate as f64);
    let working: Vec<_> = (0..connections)
        .map(|n| {
            let protocol = protocols[n % protocols.len()];
            tokio::spawn(submitters.clone().submit(protocol, interval))
        })
        .collect();
    // The auditor does not support TLS.
    let plain = protocols.contains(&Protocol::Http1);
    let reading = plain.then(|| tokio::spawn(submitters.clone().read()));
    what().await;
    submitters.end();
    let mut outcome = Outcome::default();
    for worker in working {
        outcome.add(worker.await.unwrap());
    }
    if let Some(reading) = reading {
        outcome.problems.extend(reading.await.unwrap());
    }
    (outcome, submitters)
}

/// Upgrades several times, with a pause after each upgrade.
async fn upgrade(log: &LogUnderTest, server: &mut Server, times: usize) {
    for _ in 0..times {
        // Load without an upgrade, so that late effects show. On a busy machine the pause is
        // longer.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut new = next(log);
        let ended = tokio::task::block_in_place(|| server.wait(EVENT_TIMEOUT)).unwrap();
        assert_eq!(
            ended.code(),
            Some(0),
            "{}\n{}",
            server.output(),
            new.output()
        );
        assert_has(&server.output(), "handed over");
        assert_eq!(new.try_wait().unwrap(), None, "{}", new.output());
        *server = new;
    }
    // Load after the last upgrade, to show late effects. On a busy machine the pause is longer.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// `LUCARNE_UPGRADES=10 LUCARNE_RATE=500 cargo test -p lucarne --test it --
/// handover::upgrades_at_load --nocapture` for the figures in docs/explanation/handover.md.
#[test]
fn upgrades_at_load_lose_nothing() {
    let (times, rate) = (number("LUCARNE_UPGRADES", 2), number("LUCARNE_RATE", 60));
    let log = log_that_hands_over("period: 100", "");
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let protocols = [Protocol::Http1, Protocol::Http2];
        let upgrades = async || upgrade(&log, &mut server, times).await;
        let (mut outcome, submitters) = at_load(&log, (&protocols, rate), upgrades).await;
        assert_eq!(outcome.problems, [""; 0], "{}", server.output());
        let longest = *outcome.took.iter().max().unwrap();
        println!(
            "{times} upgrades at {rate}/s: {} submissions, none lost; p50 {:?}, p99 {:?}, longest {longest:?}",
            outcome.took.len(),
            outcome.percentile(50),
            outcome.percentile(99),
        );
        let report = submitters.audit.run().await.unwrap();
        assert_eq!(report.findings, [""; 0]);
        assert_eq!(report.size as usize, outcome.took.len());
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    assert!(!log.path().join("handover.sock").exists());
}

#[test]
fn upgrades_lose_nothing_over_tls() {
    let tls = "tls: {certificate: tls.pem, key: tls.key}\n";
    let log = log_that_hands_over("period: 100", tls);
    let leaf = LeafOptions::for_names([NAME]).unwrap();
    let chain = pki().p256.full_chain(pki().p256.issue(&leaf).unwrap());
    let key = lucarne_mint::pem::encode("PRIVATE KEY", &leaf.key.to_pkcs8().unwrap());
    fs::write(log.path().join("tls.pem"), chain.to_pem()).unwrap();
    lucarne_testkit::write_secret(log.path().join("tls.key"), key);
    let mut server = log.start().unwrap();
    run(async {
        let protocols = [Protocol::Https1, Protocol::Https2];
        let upgrades = async || upgrade(&log, &mut server, 1).await;
        let (outcome, _) = at_load(&log, (&protocols, 40), upgrades).await;
        assert_eq!(outcome.problems, [""; 0], "{}", server.output());
        assert!(!outcome.took.is_empty());
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// The next process builds its dedup index while a process of an earlier version, whose index it
/// cannot read, still runs the log.
#[test]
fn an_index_is_built_before_a_log_of_an_earlier_version_is_taken_over() {
    let log = log_that_hands_over("", "");
    let mut server = log.start().unwrap();
    let chain = submission(&pki().p256);
    let submit = async || {
        let answer = log.client().post("ct/v1/add-chain", chain.clone()).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let sct: Value = serde_json::from_str(&answer.text()).unwrap();
        (sct["timestamp"].clone(), sct["extensions"].clone())
    };
    let logged = run(async {
        ready(&log).await;
        submit().await
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let cache = log.path().join("cache");
    fs::rename(cache.join("index"), cache.join("dedup")).unwrap();
    fs::remove_file(cache.join("dedup/anchor")).unwrap();
    let lock = fs::File::open(cache.join("dedup/lock")).unwrap();
    lock.lock().unwrap();
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        assert_eq!(submit().await, logged);
    });
    let output = server.output();
    let built = output.find("built the dedup index before the hand-over");
    assert!(built < output.find("listening"), "{output}");
    assert!(built.is_some(), "{output}");
    assert!(cache.join("dedup/tables").exists());
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// If the next process dies at any step of the handover, the running process continues. At most its
/// connections end, or its logs are opened again.
#[test]
fn a_next_process_that_dies_at_any_step_leaves_the_first_in_charge() {
    let log = log_that_hands_over("", "");
    let mut server = log.start().unwrap();
    let steps: [(&str, Option<&str>); 6] = [
        ("connected", None),
        ("offer", None),
        ("ready", Some("this process continues")),
        ("accept", Some("opens its logs again")),
        ("yours", Some("opens its logs again")),
        ("failed", Some("the other process failed: no luck")),
    ];
    run(async {
        ready(&log).await;
        for (step, said) in steps {
            let before = server.output().len();
            tokio::task::block_in_place(|| die_at(&log, step));
            if let Some(said) = said {
                eventually(step, async || server.output()[before..].contains(said)).await;
            }
            let client = log.client();
            let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
            let answer = answer.await.unwrap();
            assert_eq!(
                answer.status,
                200,
                "{step}: {}\n{}",
                answer.text(),
                server.output()
            );
        }
        let audit = log.audit().unwrap();
        let report = audit.run().await.unwrap();
        assert_eq!((report.findings, report.size), (vec![], steps.len() as u64));
    });
    // After all of these failures, a real process takes over.
    let mut new = next(&log);
    assert_eq!(server.wait(EVENT_TIMEOUT).unwrap().code(), Some(0));
    assert!(
        new.stop(EVENT_TIMEOUT).unwrap().success(),
        "{}",
        new.output()
    );
}

fn die_at(log: &LogUnderTest, step: &str) {
    if step == "connected" {
        return drop(Asker::connect(log));
    }
    let mut asker = Asker::offered(log);
    if step == "offer" {
        return;
    }
    asker.say(&json!("ready"));
    if step == "ready" {
        return;
    }
    assert_eq!(asker.hear(), "accept");
    if step == "accept" {
        return;
    }
    assert_eq!(asker.hear(), "yours");
    if step == "failed" {
        asker.say(&json!({"failed": "no luck"}));
        assert!(asker.hear()["withdrawn"].is_string());
    }
}

/// Either process is killed at random moments of a handover. The other one serves, and no promised
/// entry is lost.
#[test]
fn either_process_is_killed_at_any_moment() {
    let seed = number("LUCARNE_SEED", 1);
    println!("LUCARNE_SEED={seed}");
    let mut moments = StdRng::seed_from_u64(seed as u64);
    let log = log_that_hands_over("period: 50", "");
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let submitters = Submitters::of(&log);
        let working: Vec<_> = (0..8)
            .map(|_| {
                let submit = submitters
                    .clone()
                    .submit(Protocol::Http1, Duration::from_millis(100));
                tokio::spawn(submit)
            })
            .collect();
        for case in 0..number("LUCARNE_KILLS", 4) {
            let mut new = next(&log);
            let moment = (0..3_500).choose(&mut moments).unwrap();
            // The moment of the kill: one of the two processes serves after any.
            tokio::time::sleep(Duration::from_millis(moment)).await;
            println!("case {case}: after {moment} ms");
            match case % 2 {
                0 => drop(server.kill()),
                _ => drop(new.kill()),
            }
            // If the handover was complete before the kill, the old process has ended by itself.
            let health = lucarne_testkit::Client::new(format!("http://{}", log.address()));
            eventually("somebody serves", async || {
                if case % 2 == 1 && server.try_wait().unwrap().is_some() {
                    server = log.start().unwrap();
                }
                health
                    .get("health")
                    .await
                    .is_ok_and(|answer| answer.status == 200)
            })
            .await;
            if case % 2 == 0 {
                server = new;
            }
        }
        submitters.end();
        for worker in working {
            // Connections of a killed process are reset.
            worker.await.unwrap();
        }
        let report = submitters.audit.run().await.unwrap();
        assert_eq!(report.findings, [""; 0], "{}", server.output());
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// All errors that can be detected are detected before the running process releases anything, even
/// before it ends its connections.
#[test]
fn a_start_that_cannot_take_over_ends_and_disturbs_nobody() {
    let log = log_that_hands_over("", "");
    let mut server = log.start().unwrap();
    let file = log.configuration();
    let good = fs::read_to_string(&file).unwrap();
    let seed = log.path().join("seed.bin");
    let other = log.path().join("other.bin");
    fs::write(&other, rand::random::<[u8; 32]>()).unwrap();
    fs::set_permissions(&other, fs::metadata(&seed).unwrap().permissions()).unwrap();
    run(async {
        ready(&log).await;
        let mut idle = tokio::net::TcpStream::connect(log.address()).await.unwrap();
        ask_on(&mut idle).await;
        let cases = [
            (
                "checkpoints: lock.sqlite",
                "checkpoints: other.sqlite",
                "other.sqlite",
            ),
            ("period", "perriod", "no such key"),
            ("seed.bin", "other.bin", "no process would run it"),
            ("seed.bin", "none.bin", "none.bin"),
        ];
        for (from, to, said) in cases {
            fs::write(&file, format!("{}    period: 100\n", good)).unwrap();
            edit(&file, from, to);
            let (code, words) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
            assert_eq!(code, 1, "{to}: {words}");
            assert_has(&words, said);
        }
        ask_on(&mut idle).await;
    });
    let said = server.output();
    assert!(!said.contains("handing over"), "{said}");
    fs::write(&file, good).unwrap();
    let mut new = next(&log);
    assert_eq!(server.wait(EVENT_TIMEOUT).unwrap().code(), Some(0));
    assert!(new.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Requests the checkpoint on a kept-alive connection.
async fn ask_on(stream: &mut tokio::net::TcpStream) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let request = b"GET /test/checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = vec![0; 4096];
    let reading = stream.read(&mut answer);
    let read = in_time("a response on a kept connection", reading)
        .await
        .unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    assert!(!answer.contains("connection: close"), "{answer}");
}

#[test]
fn other_versions_are_refused_in_words_on_both_sides() {
    let log = log_that_hands_over("", "");
    let mut server = log.start().unwrap();
    run(ready(&log));
    let mut later = hello(&log);
    later["hello"]["protocol"] = json!(2);
    for (said, words) in [
        (later, "uses version 1 of the hand-over"),
        (json!({"parley": true}), "another version of the hand-over"),
        (json!("ready"), "expected a message that begins a hand-over"),
    ] {
        let mut asker = Asker::connect(&log);
        asker.say(&said);
        let refused = asker.hear()["refused"].as_str().unwrap().to_owned();
        assert_has(&refused, words);
    }
    // During one attempt to take over, a second one is refused.
    let first = Asker::offered(&log);
    let mut second = Asker::connect(&log);
    second.say(&hello(&log));
    assert_has(
        second.hear()["refused"].as_str().unwrap(),
        "is taking over now",
    );
    drop(first);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    // The other direction: the running process has a later version.
    let listener = UnixListener::bind(log.path().join("handover.sock")).unwrap();
    let later = std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = listener.accept().unwrap();
        writeln!(stream, "{{\"ceremony\": 7}}").unwrap();
        let mut rest = String::new();
        let _ = std::io::Read::read_to_string(&mut stream, &mut rest);
    });
    let (code, words) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1, "{words}");
    assert_has(&words, "another version of the hand-over");
    later.join().unwrap();
}

#[test]
fn a_socket_that_was_left_is_replaced_and_another_file_is_not() {
    let log = log_that_hands_over("", "");
    let mut server = log.start().unwrap();
    run(ready(&log));
    server.kill().unwrap();
    let socket = log.path().join("handover.sock");
    assert!(socket.exists());
    let mut server = log.start().unwrap();
    run(ready(&log));
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    fs::write(&socket, "mine").unwrap();
    let (code, words) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1, "{words}");
    assert_has(&words, "handover.sock");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
}

/// The next process cannot open a log, and detects this only during the takeover.
#[test]
fn a_log_that_the_next_process_cannot_open_is_given_back() {
    let log = log_that_hands_over("", "");
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let file = log.configuration();
        let good = fs::read_to_string(&file).unwrap();
        // The directory of the dedup index cannot be created.
        let cache = format!("cache: {}/cache", log.path().display());
        edit(&file, &cache, "cache: /proc/lucarne");
        let mut new = next(&log);
        let ended = tokio::task::block_in_place(|| new.wait(EVENT_TIMEOUT)).unwrap();
        assert_eq!(ended.code(), Some(1), "{}", new.output());
        assert_has(&new.output(), "the running process continues");
        fs::write(&file, good).unwrap();
        let client = log.client();
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(answer.await.unwrap().status, 200, "{}", server.output());
        let health: Value = lucarne_testkit::Client::new(format!("http://{}", log.address()))
            .get("health")
            .await
            .unwrap()
            .json()
            .unwrap();
        assert_eq!(health["logs"][0]["state"], "running", "{health}");
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
