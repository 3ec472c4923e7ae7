//! The endpoints of a witness (C2SP tlog-witness): statuses, bodies, limits, health and metrics.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lucarne_cosign::{AddCheckpoint, LogKeys, TrustedKey, Witness};
use lucarne_http::{Cosigners, Limits, MonotonicClock, Rate, ReadLimits, Site, WitnessService};
use lucarne_storage::{Lock, MemoryLock};
use lucarne_testkit::{SignedLog, eventually};
use lucarne_tlog::note::parse_signatures;
use lucarne_tlog::{EMPTY_ROOT, SignedNote, Subtree, VerifierKey};
use prometheus_client::registry::Registry;

use crate::support::{Answer, Server, TestLog};

const ORIGIN: &str = "log.example/2026h2";

/// Returns a witness without a mirror.
fn alone(witness: Arc<WitnessService>) -> Cosigners {
    Cosigners {
        witness: Some(witness),
        mirror: None,
    }
}

/// Returns a witness without logs at `prefix`.
fn unknowing(prefix: &str) -> Arc<WitnessService> {
    let keys = lucarne_ct::witness_cosigners(&[5; 32], "w").unwrap();
    let lock = Arc::new(MemoryLock::new());
    let witness = Arc::new(Witness::new(keys, LogKeys::default(), lock).unwrap());
    WitnessService::new(
        witness,
        prefix.into(),
        prefix.into(),
        &mut Registry::default(),
    )
}

/// A served witness of one log.
struct Served {
    server: Server,
    service: Arc<WitnessService>,
    lock: MemoryLock,
    keys: Vec<VerifierKey>,
}

impl Served {
    async fn start() -> Self {
        Self::beside(Vec::new(), "http://w.example/w/", Limits::default()).await
    }

    /// Serves a witness at `prefix`, beside these logs.
    async fn beside(logs: Vec<Arc<lucarne_log::Log>>, prefix: &str, limits: Limits) -> Self {
        Self::of(logs, prefix, limits, MemoryLock::new()).await
    }

    async fn with_lock(lock: MemoryLock) -> Self {
        Self::of(Vec::new(), "http://w.example/w/", Limits::default(), lock).await
    }

    async fn of(
        logs: Vec<Arc<lucarne_log::Log>>,
        prefix: &str,
        limits: Limits,
        lock: MemoryLock,
    ) -> Self {
        let cosigners = lucarne_ct::witness_cosigners(&[5; 32], "witness.example").unwrap();
        let keys = cosigners.iter().map(|key| key.verifier().clone()).collect();
        let mut known = LogKeys::default();
        let key = SignedLog::new(ORIGIN, 0).key.verifier().clone();
        known.add(ORIGIN, TrustedKey::Note(key));
        let witness = Witness::new(cosigners, known, Arc::new(lock.clone())).unwrap();
        witness.create().await.unwrap();
        let mut registry = Registry::default();
        let prefix = prefix.to_owned();
        let service = WitnessService::new(Arc::new(witness), prefix.clone(), prefix, &mut registry);
        let server = Server::start_with(logs, limits, registry, |listener| listener).await;
        server.site.serve_cosigners(alone(service.clone())).unwrap();
        service.note_complete();
        Served {
            server,
            service,
            lock,
            keys,
        }
    }

    async fn add(&self, request: &AddCheckpoint) -> Answer {
        let body = request.to_string();
        self.server.post("/w/add-checkpoint", body.as_bytes()).await
    }

    async fn checkpoint(&self) -> Answer {
        let hash = hex::encode(lucarne_ct::sha256(&[ORIGIN.as_bytes()]));
        self.server.get(&format!("/w/{hash}/checkpoint")).await
    }

    /// Verifies that the lines are cosignatures of all keys with a time.
    fn verify(&self, text: &str, lines: &str) {
        let note = SignedNote {
            text: text.to_owned(),
            signatures: parse_signatures(lines).unwrap(),
        };
        assert_eq!(note.signatures.len(), 2);
        for key in &self.keys {
            assert!(key.verify(&note).unwrap().unwrap() > 0);
        }
    }
}

#[tokio::test]
async fn checkpoints_are_cosigned_and_served() {
    let (log, served) = (SignedLog::new(ORIGIN, 0), Served::start().await);
    assert_eq!(served.checkpoint().await.status, 404);
    for (old, size) in [(0, 5), (5, 13), (13, 13)] {
        let request = log.request(old, size);
        let answer = served.add(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        served.verify(&request.note.text, answer.text());

        let served_note = served.checkpoint().await;
        assert_eq!(
            served_note.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
        let note = SignedNote::parse(&served_note.body).unwrap();
        assert_eq!(note.signatures[0], request.note.signatures[0]);
        served.verify(&note.text, &answer.text().replace('\r', ""));
        assert!(served_note.text().ends_with(answer.text()));
    }
    // Readers that have it get 304.
    let hash = hex::encode(lucarne_ct::sha256(&[ORIGIN.as_bytes()]));
    let path = format!("/w/{hash}/checkpoint");
    let tag = served.checkpoint().await;
    let tag = tag.header("etag").unwrap().to_owned();
    let again = served
        .server
        .ask("GET", &path, &[("if-none-match", &tag)])
        .await;
    assert_eq!(again.status, 304);
    assert_eq!(served.server.ask("HEAD", &path, &[]).await.status, 200);
    assert_eq!(served.server.ask("POST", &path, &[]).await.status, 405);

    let subtree = Subtree::new(8, 13).unwrap();
    let added = served.add(&log.request(13, 13)).await;
    let cosignatures = parse_signatures(added.text()).unwrap();
    let request = log.subtree_request(subtree, 13, cosignatures);
    let body = request.to_string();
    let answer = served.server.post("/w/sign-subtree", body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let lines = parse_signatures(answer.text()).unwrap();
    let [line] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(line.signature[..8], [0; 8]);
    let verified = served.keys[1].verify_subtree(ORIGIN, subtree, &request.hash, line);
    assert_eq!(verified, Ok(()));

    let metrics = |name: &str| served.server.metric(name);
    let origin = format!("{{origin=\"{ORIGIN}\"}} ");
    assert_eq!(
        metrics(&format!("lucarne_witness_cosigned_total{origin}")),
        4
    );
    assert_eq!(metrics(&format!("lucarne_witness_log_entries{origin}")), 13);
    assert_eq!(metrics("lucarne_witness_logs "), 1);
}

#[tokio::test]
async fn refused_requests() {
    let (log, served) = (SignedLog::new(ORIGIN, 0), Served::start().await);
    let fork = SignedLog::new(ORIGIN, 1);
    let first = log.request(0, 13);
    let changed = |change: &dyn Fn(&mut AddCheckpoint)| {
        let mut request = first.clone();
        change(&mut request);
        request
    };
    // Before the first checkpoint: a proof with the size 0, and a wrong root of the empty tree.
    let with_proof = changed(&|it| it.proof = vec![EMPTY_ROOT]);
    let mut empty = log.request(0, 0);
    empty.checkpoint.root = log.roots[1];
    empty.note = log.signed(&empty.checkpoint);
    for request in [with_proof, empty] {
        let answer = served.add(&request).await;
        assert_eq!(
            (answer.status, code(&answer)),
            (422, "inconsistent_checkpoint".into())
        );
    }
    assert_eq!(served.add(&first).await.status, 200);

    let other = SignedLog::new("other.example", 0);
    let long = changed(&|it| it.proof = vec![EMPTY_ROOT; 64]);
    let shrunk = changed(&|it| it.old = 14);
    let unsigned = changed(&|it| it.note = other.signed(&it.checkpoint));
    let invalid = changed(&|it| {
        let signature = &mut it.note.signatures[0].signature;
        signature[70] ^= 1;
    });
    let wrong_proof = AddCheckpoint {
        proof: vec![EMPTY_ROOT],
        ..log.request(13, 20)
    };
    for (request, status, expected) in [
        (long, 400, "bad_witness_request"),
        (shrunk, 400, "bad_witness_request"),
        (other.request(0, 5), 404, "unknown_log"),
        (unsigned, 403, "untrusted_checkpoint"),
        (invalid, 403, "untrusted_checkpoint"),
        (wrong_proof, 422, "inconsistent_checkpoint"),
        (fork.request(13, 13), 422, "inconsistent_checkpoint"),
    ] {
        let answer = served.add(&request).await;
        assert_eq!((answer.status, code(&answer)), (status, expected.into()));
    }
    for stale in [log.request(0, 13), log.request(5, 20), fork.request(0, 13)] {
        let answer = served.add(&stale).await;
        assert_eq!((answer.status, answer.text()), (409, "13\n"));
        assert_eq!(answer.header("content-type"), Some("text/x.tlog.size"));
    }
    // Nothing has changed.
    let recorded = SignedNote::parse(&served.checkpoint().await.body).unwrap();
    assert_eq!(recorded.text, first.note.text);
    let refusals = "lucarne_witness_refusals_total{code=\"untrusted_checkpoint\"} ";
    assert_eq!(served.server.metric(refusals), 2);
    let requests =
        "lucarne_http_requests_total{log=\"\",endpoint=\"add-checkpoint\",code=\"409\"} ";
    assert_eq!(served.server.metric(requests), 3);
}

#[tokio::test]
async fn refused_subtrees() {
    let (log, served) = (SignedLog::new(ORIGIN, 0), Served::start().await);
    let subtree = Subtree::new(8, 13).unwrap();
    let added = served.add(&log.request(0, 14)).await;
    let cosignatures = parse_signatures(added.text()).unwrap();
    let good = log.subtree_request(subtree, 14, cosignatures.clone());
    let other = SignedLog::new("other.example", 0);
    let mut wrong = good.clone();
    wrong.hash = EMPTY_ROOT;
    let range = |range: &str| good.to_string().replace("subtree 8 13", range);
    let uncosigned = log.signed(&good.checkpoint).signatures;
    for (body, status) in [
        (range("subtree 7 9"), 400),
        (range("subtree 8 15"), 400),
        (range("subtree 13 8"), 400),
        (
            other.subtree_request(subtree, 14, cosignatures).to_string(),
            404,
        ),
        (
            log.subtree_request(subtree, 14, uncosigned).to_string(),
            403,
        ),
        (wrong.to_string(), 422),
    ] {
        let answer = served.server.post("/w/sign-subtree", body.as_bytes()).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

#[tokio::test]
async fn bodies_and_methods_are_bounded() {
    let served = Served::start().await;
    for path in ["/w/add-checkpoint", "/w/sign-subtree"] {
        let mut client = served.server.connect().await;
        let length = (128 << 10) + 1;
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: w.example\r\ncontent-length: {length}\r\n\r\n");
        client.send(head.as_bytes()).await;
        assert_eq!(client.answer().await.unwrap().status, 413);
        assert_eq!(served.server.post(path, b"").await.status, 400);
        let get = served.server.ask("GET", path, &[]).await;
        assert_eq!(
            (get.status, get.header("allow")),
            (405, Some("POST, OPTIONS"))
        );
        for (method, fields, status) in [
            ("PUT", &[][..], 405),
            ("OPTIONS", &[], 204),
            ("POST", &[("content-encoding", "gzip")], 415),
        ] {
            let answer = served.server.ask(method, path, fields).await;
            assert_eq!(answer.status, status, "{method}");
        }
    }
    // Requests of one client count towards its read limits.
    let reads = ReadLimits {
        client: Rate::per_second(2, 1),
        // The clock stands still, so that nothing is refilled.
        clock: MonotonicClock::new(|| 0),
        ..ReadLimits::default()
    };
    let limits = Limits {
        reads: Some(reads),
        trusted_proxies: Some(Vec::new()),
        ..Limits::default()
    };
    let served = Served::beside(Vec::new(), "http://w.example/w/", limits).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(served.server.post("/w/add-checkpoint", b"").await.status);
    }
    assert_eq!(statuses[..2], [400, 400]);
    assert_eq!(statuses[2], 429);
}

#[tokio::test]
async fn temporary_failures_are_retried() {
    let (log, served) = (SignedLog::new(ORIGIN, 0), Served::start().await);
    served.lock.fail(Some("the disk /var/lib/secret is full"));
    let request = log.request(0, 5);
    for answer in [served.add(&request).await, served.checkpoint().await] {
        assert_eq!(
            (answer.status, code(&answer)),
            (503, "witness_unavailable".into())
        );
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert!(!answer.text().contains("secret"), "{}", answer.text());
    }
    let health = served.server.get("/health").await;
    assert_eq!(health.status, 503);
    assert_eq!(health.json()["witness"]["checks"][0]["ok"], false);
    assert!(!health.text().contains("secret"), "{}", health.text());
    served.lock.fail(None);
    assert_eq!(served.add(&request).await.status, 200);
    eventually("the witness is healthy", async || {
        served.server.get("/health").await.status == 200
    })
    .await;
    // A damaged record is a failure that the operator must examine.
    let key = served.service.witness().record_key(ORIGIN);
    served.lock.tamper(&key, Some(b"damaged".to_vec()));
    let answer = served.add(&log.request(5, 13)).await;
    assert_eq!(
        (answer.status, code(&answer)),
        (500, "witness_failed".into())
    );
}

/// A record of a clock that was ahead is red until the log is cosigned again.
#[tokio::test]
async fn a_clock_behind_a_record_is_reported() {
    let (log, served) = (SignedLog::new(ORIGIN, 0), Served::start().await);
    let witness = served.service.witness();
    assert_eq!(served.add(&log.request(0, 5)).await.status, 200);
    let record = served.lock.load(&witness.record_key(ORIGIN)).await.unwrap();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ahead = since.as_secs() + 3600;
    witness
        .add_checkpoint(&log.request(5, 13), ahead)
        .await
        .unwrap();
    assert_eq!(served.server.get("/health").await.status, 200);
    assert_eq!(served.add(&log.request(13, 20)).await.status, 503);
    let health = served.server.get("/health").await;
    assert_eq!(health.status, 503);
    let clock = &health.json()["witness"]["checks"][1];
    assert_eq!(clock["name"], "clock");
    assert_eq!(clock["ok"], false);
    assert!(clock["detail"].as_str().unwrap().contains(ORIGIN));
    served.lock.tamper(&witness.record_key(ORIGIN), record);
    assert_eq!(served.add(&log.request(5, 13)).await.status, 200);
    assert_eq!(served.server.get("/health").await.status, 200);
}

/// A contradiction is red for its log, and names the place of the evidence.
#[tokio::test]
async fn evidence_is_reported_and_served() {
    let (log, served) = (SignedLog::new(ORIGIN, 0), Served::start().await);
    let fork = SignedLog::new(ORIGIN, 1);
    served.add(&log.request(0, 13)).await;
    assert!(served.server.get("/health").await.json()["witness"]["contradicted"].is_null());
    assert_eq!(served.add(&fork.request(13, 13)).await.status, 422);
    let health = served.server.get("/health").await;
    // The fault of a log must not stop the witness of the others.
    assert_eq!(health.status, 200);
    let health = health.json();
    let contradicted = &health["witness"]["contradicted"][0];
    assert_eq!(contradicted["origin"], ORIGIN);
    assert_eq!(contradicted["healthy"], false);
    let detail = contradicted["detail"].as_str().unwrap();
    let (_, url) = detail.rsplit_once(' ').unwrap();
    let path = url.strip_prefix("http://w.example").unwrap();
    let evidence = served.server.get(path).await;
    assert_eq!(evidence.status, 200);
    let recorded = served.checkpoint().await;
    let submitted = fork.request(13, 13).note.encode();
    assert_eq!(evidence.text(), format!("{}\n{submitted}", recorded.text()));
    let next = path.replace("/evidence/0", "/evidence/1");
    assert_eq!(served.server.get(&next).await.status, 404);
    let metric = format!("lucarne_witness_contradictions{{origin=\"{ORIGIN}\"}} ");
    assert_eq!(served.server.metric(&metric), 1);
    // A new process, and the other process of the same lock, count without a request.
    let again = Served::with_lock(served.lock.clone()).await;
    again.service.count_contradictions().await.unwrap();
    assert_eq!(again.server.metric(&metric), 1);
    let mut second = fork.request(13, 13);
    second.checkpoint.root = fork.roots[12];
    second.note = fork.signed(&second.checkpoint);
    assert_eq!(served.add(&second).await.status, 422);
    again.service.count_contradictions().await.unwrap();
    assert_eq!(again.server.metric(&metric), 2);
    let health = again.server.get("/health").await.json();
    assert_eq!(health["witness"]["contradicted"][0]["origin"], ORIGIN);
}

/// The witness does not know its logs until the lists were read once.
#[tokio::test]
async fn unknown_logs_retry_until_the_lists_are_read() {
    let other = SignedLog::new("other.example", 0);
    let served = Served::start().await;
    let starting = unknowing("http://w.example/w/");
    let site = &served.server.site;
    // Without the value of this witness, the lock may have lost its records.
    site.serve_cosigners(alone(starting.clone())).unwrap();
    let unavailable = async || {
        let answer = served.add(&other.request(0, 5)).await;
        let found = (answer.status, code(&answer));
        assert_eq!(found, (503, "witness_unavailable".into()));
    };
    unavailable().await;
    let health = served.server.get("/health").await;
    assert_eq!(health.status, 503);
    assert!(
        health.text().contains("no state of this witness"),
        "{}",
        health.text()
    );
    starting.witness().create().await.unwrap();
    site.serve_cosigners(alone(starting.clone())).unwrap();
    unavailable().await;
    starting.note_list("https://lists.example/logs", Some("it hangs".to_owned()));
    starting.note_complete();
    assert_eq!(served.add(&other.request(0, 5)).await.status, 404);
    eventually("the witness is healthy", async || {
        served.server.get("/health").await.status == 200
    })
    .await;
    let health = served.server.get("/health").await;
    let checks = &health.json()["witness"]["checks"];
    assert_eq!(checks[1]["name"], "log_lists");
    assert!(checks[1]["detail"].as_str().unwrap().contains("it hangs"));
}

#[tokio::test]
async fn a_witness_beside_logs() {
    let first = TestLog::start("first").await;
    let logs = vec![first.log.clone()];
    let served = Served::beside(logs.clone(), "http://log.example/w/", Limits::default()).await;
    let server = &served.server;
    assert_eq!(server.get("/first/checkpoint").await.status, 200);
    let about = server.get("/w/witness.v0.json").await.json();
    assert_eq!(about["name"], "witness.example");
    assert_eq!(about["submission_url"], "http://log.example/w/");
    let keys: Vec<_> = served.keys.iter().map(ToString::to_string).collect();
    assert_eq!(about["verifier_keys"], serde_json::json!(keys));
    // The witness stays when logs are replaced.
    server.site.replace_logs(Vec::new(), Vec::new()).unwrap();
    assert_eq!(server.get("/first/checkpoint").await.status, 404);
    assert_eq!(server.get("/w/").await.json()["name"], "witness.example");
    assert_eq!(server.get("/w").await.header("location"), Some("/w/"));
    let refused = server.post("/w/add-checkpoint", b"").await;
    let help = refused.json()["help"].as_str().unwrap().to_owned();
    assert_eq!(help, "http://log.example/w/errors#bad_witness_request");
    assert!(
        server
            .get("/w/errors")
            .await
            .text()
            .contains("bad_witness_request")
    );

    // A log and a witness cannot have the same prefix.
    let service = unknowing("http://log.example/first/");
    let site = Site::new(logs, Registry::default(), Limits::default()).unwrap();
    let error = site
        .serve_cosigners(alone(service))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("log first") && error.contains("the witness"),
        "{error}"
    );
}

fn code(answer: &Answer) -> String {
    answer.json()["code"].as_str().unwrap().to_owned()
}
