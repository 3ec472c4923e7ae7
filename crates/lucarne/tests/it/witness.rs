//! `lucarne witness`, and a witness beside logs.

mod sunlight;

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base64_simd::STANDARD;
use lucarne_cosign::AddCheckpoint;
use lucarne_ct::sha256;
use lucarne_testkit::{
    Client, Launch, Response, Server, Signal, SignedLog, TempDir, free_port, temp_dir, write_secret,
};
use lucarne_tlog::note::parse_signatures;
use lucarne_tlog::{Checkpoint, Cosigner, SignedNote, Tile, VerifierKey, consistency_proof};

use crate::common::{
    EVENT_TIMEOUT, LUCARNE, assert_has, eventually, log, lucarne, pki, ready, run, submission,
};
use crate::handover::number;
use crate::metrics;

const NAME: &str = "witness.example";

/// A directory with the seed and the lock of a witness.
struct Place(TempDir);

impl Place {
    fn new(logs: &str) -> Self {
        let place = Place(temp_dir());
        write_secret(place.path().join("witness.seed"), [5; 32]);
        place.configure("witness", logs);
        let (code, said) = lucarne(place.path(), &["init", "-c", "witness.yaml"]);
        assert_eq!(code, 0, "{said}");
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes the configuration of a process, and returns its address.
    fn configure(&self, process: &str, logs: &str) -> SocketAddr {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let yaml = format!(
            "listen: {address}\ncheckpoints: lock.db\nwitness:\n  name: {NAME}\n  secret: \
             witness.seed\n  submissionprefix: http://{address}/w/\n{logs}"
        );
        fs::write(self.path().join(format!("{process}.yaml")), yaml).unwrap();
        address
    }

    fn start(&self, process: &str, address: SocketAddr) -> Server {
        let launch = Launch::new(LUCARNE).directory(self.path());
        let launch = launch.args(["witness", "-c", &format!("{process}.yaml")]);
        launch.start(address).unwrap()
    }

    /// Starts a process of its own configuration.
    fn configured(&self, logs: &str) -> (Server, SocketAddr) {
        let address = self.configure("witness", logs);
        (self.start("witness", address), address)
    }
}

fn client(address: SocketAddr) -> Client {
    Client::new(format!("http://{address}/w/"))
}

fn keys() -> [VerifierKey; 2] {
    let cosigners = lucarne_ct::witness_cosigners(&[5; 32], NAME).unwrap();
    cosigners.map(|key| key.verifier().clone())
}

/// Returns a log that a list can have.
fn listed(origin: &str, branch: u8) -> SignedLog {
    SignedLog::with_key(Cosigner::ml_dsa_44(origin, &[4; 32]).unwrap(), branch)
}

fn list(origins: impl IntoIterator<Item = String>) -> String {
    let line = |origin: String| format!("vkey {}\n", listed(&origin, 0).key.verifier());
    let lines: String = origins.into_iter().map(line).collect();
    format!("logs/v0\n\n{lines}")
}

async fn add(client: &Client, request: &AddCheckpoint) -> anyhow::Result<Response> {
    client.post("add-checkpoint", request.to_string()).await
}

/// Returns the status for a request, after the lists were read.
async fn status(client: &Client, request: &AddCheckpoint) -> u16 {
    let mut status = 503;
    eventually("the witness has read its lists", async || {
        status = add(client, request)
            .await
            .map_or(503, |added| added.status.as_u16());
        status != 503
    })
    .await;
    status
}

#[track_caller]
fn assert_cosigned(text: &str, lines: &str) {
    let signatures = parse_signatures(lines).unwrap();
    let text = text.to_owned();
    let note = SignedNote { text, signatures };
    for key in keys() {
        assert!(key.verify(&note).unwrap().unwrap() > 0);
    }
}

/// Returns the request for the present checkpoint of a log, from a tree of `old` entries. A client
/// reads checkpoint and tiles over HTTP.
async fn request(client: &Client, old: u64) -> AddCheckpoint {
    let note = client.get("checkpoint").await.unwrap().ok().unwrap();
    let note = SignedNote::parse(&note).unwrap();
    let checkpoint = Checkpoint::parse(&note.text).unwrap();
    let mut tiles = HashMap::new();
    let path = format!("tile/0/000.p/{}", checkpoint.size);
    if checkpoint.size > 0 {
        let hashes = client.get(&path).await.unwrap().ok().unwrap();
        tiles.insert(Tile::parse(&path).unwrap(), hashes.to_vec());
    }
    let mut reader = |tile: Tile| tiles.get(&tile).cloned().ok_or(tile);
    AddCheckpoint {
        old,
        proof: consistency_proof(old, checkpoint.size, &mut reader).unwrap(),
        note,
        checkpoint,
    }
}

/// The steps of the documentation: key, lock, check, and cosignatures of a real log.
#[test]
fn a_growing_ct_log_is_cosigned() {
    let log = log("period: 50ms");
    let key = STANDARD.encode_to_string(log.public_key());
    let place = Place::new(&format!("  logs: [\"{} {key}\"]\n", log.origin()));
    let keygen = ["keygen", "-f", "witness.seed", "--witness", NAME];
    let (code, said) = lucarne(place.path(), &keygen);
    assert_eq!(code, 0, "{said}");
    for key in keys() {
        assert_has(&said, &key.to_string());
    }
    let (code, said) = lucarne(place.path(), &["check", "-c", "witness.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "witness witness.example: http://");
    assert_has(&said, "1 configured log");

    let address = place.configure(
        "witness",
        &format!("  logs: [\"{} {key}\"]\n", log.origin()),
    );
    let _log_server = log.start().unwrap();
    let mut server = place.start("witness", address);
    let witness = client(address);
    run(async {
        ready(&log).await;
        let reader = log.client();
        let mut old = 0;
        for _ in 0..3 {
            let body = submission(&pki().p256);
            let submitted = reader.post("ct/v1/add-chain", body).await.unwrap();
            assert_eq!(submitted.status, 200, "{}", submitted.text());
            let mut request = request(&reader, old).await;
            while request.checkpoint.size == old {
                request = self::request(&reader, old).await;
            }
            let added = add(&witness, &request).await.unwrap();
            assert_eq!(added.status, 200, "{}", added.text());
            assert_cosigned(&request.note.text, &added.text());
            old = request.checkpoint.size;
        }
        let hash = hex::encode(sha256(&[log.origin().as_bytes()]));
        let served = witness.get(&format!("{hash}/checkpoint")).await.unwrap();
        let served = SignedNote::parse(&served.ok().unwrap()).unwrap();
        assert_eq!(Checkpoint::parse(&served.text).unwrap().size, old);
        let metrics = ["lucarne_witness_cosigned_total", "lucarne_witness_logs"];
        metrics::check(&Client::new(format!("http://{address}")), &metrics).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Two processes with one lock get two histories of a log at the same time, and one of them is
/// killed now and then: at most one history is cosigned. `LUCARNE_FORKS=1000` is a longer series.
#[test]
fn two_processes_never_cosign_a_fork() {
    let place = Place::new("  loglists: [list.txt]\n");
    let forks = number("LUCARNE_FORKS", 120);
    let origin = |fork: usize| format!("log{fork}.example");
    fs::write(place.path().join("list.txt"), list((0..forks).map(origin))).unwrap();
    let addresses = ["one", "two"].map(|it| place.configure(it, "  loglists: [list.txt]\n"));
    let mut servers = [0, 1].map(|at| place.start(["one", "two"][at], addresses[at]));
    let clients = addresses.map(client);
    let mut kills = 0;
    run(async {
        for client in &clients {
            // Not a fork, so that both have read the list.
            let empty = listed(&origin(0), 0).request(0, 0);
            status(client, &empty).await;
        }
        for fork in 0..forks {
            let branches = [0, 1].map(|branch| listed(&origin(fork), branch));
            let requests = branches.each_ref().map(|log| log.request(0, 13));
            let mut cosigned = [false; 2];
            let (is_killed, at) = (fork % 10 == 9, fork / 10 % 2);
            for turn in [0, 1] {
                let sent = async |at: usize| {
                    let added = add(&clients[at], &requests[at ^ turn]).await;
                    added.is_ok_and(|added| added.status == 200)
                };
                let pair = async { tokio::join!(sent(0), sent(1)) };
                let kill = async {
                    if is_killed && turn == 0 {
                        servers[at].kill().unwrap();
                        kills += 1;
                    }
                };
                let (pair, ()) = tokio::join!(pair, kill);
                cosigned[turn] |= pair.0;
                cosigned[1 ^ turn] |= pair.1;
                if is_killed && turn == 0 {
                    servers[at] = place.start(["one", "two"][at], addresses[at]);
                    status(&clients[at], &listed(&origin(0), 0).request(0, 0)).await;
                }
            }
            assert_ne!(cosigned, [true; 2], "both histories of {}", origin(fork));
            // A killed process may have recorded a history without a response.
            assert!(
                cosigned != [false; 2] || is_killed,
                "no history of {}",
                origin(fork)
            );
            let hash = hex::encode(sha256(&[origin(fork).as_bytes()]));
            for client in &clients {
                let served = client.get(&format!("{hash}/checkpoint")).await.unwrap();
                let served = served.text();
                for (branch, cosigned) in branches.iter().zip(cosigned) {
                    let has = served.contains(&branch.roots[13].to_string());
                    assert!(has || !cosigned, "{served}");
                }
            }
        }
    });
    assert_eq!(kills, forks / 10);
}

/// A list that is broken or shrinks removes no log, also after a restart. SIGHUP reads lists again.
#[test]
fn lists_only_add_logs() {
    let place = Place::new("  loglists: [list.txt]\n");
    let file = place.path().join("list.txt");
    let origins = ["a.example", "b.example", "c.example"];
    let write = |count: usize| {
        let origins = origins.iter().take(count).map(|it| (*it).to_owned());
        fs::write(&file, list(origins)).unwrap();
    };
    let (a, b) = (listed(origins[0], 0), listed(origins[1], 0));
    write(1);
    let (mut server, address) = place.configured("  loglists: [list.txt]\n");
    let witness = client(address);
    run(async {
        assert_eq!(status(&witness, &a.request(0, 5)).await, 200);
        assert_eq!(status(&witness, &b.request(0, 5)).await, 404);
        write(2);
        server.signal(Signal::HUP).unwrap();
        eventually("the list was read again", async || {
            add(&witness, &b.request(0, 5)).await.unwrap().status == 200
        })
        .await;
        fs::write(&file, "broken").unwrap();
        server.signal(Signal::HUP).unwrap();
        let site = Client::new(format!("http://{address}"));
        eventually("/health has the broken list", async || {
            let health = site.get("health").await.unwrap();
            health.status == 200 && health.text().contains("expected JSON, or the line")
        })
        .await;
        assert_eq!(status(&witness, &a.request(5, 13)).await, 200);
    });
    server.kill().unwrap();
    fs::remove_file(&file).unwrap();
    let (_server, address) = place.configured("  loglists: [list.txt]\n");
    let witness = client(address);
    run(async {
        assert_eq!(status(&witness, &a.request(13, 20)).await, 200);
        assert_eq!(status(&witness, &b.request(5, 13)).await, 200);
        let unknown = listed(origins[2], 0).request(0, 5);
        assert_eq!(status(&witness, &unknown).await, 404);
    });
}

/// A list that never responds delays neither other lists nor known logs.
#[test]
fn a_list_that_hangs_delays_nothing() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/list", silent.local_addr().unwrap());
    let logs = format!("  loglists: [\"{url}\", list.txt]\n");
    let place = Place::new(&logs);
    fs::write(
        place.path().join("list.txt"),
        list(["a.example".to_owned()]),
    )
    .unwrap();
    let (_server, address) = place.configured(&logs);
    let (witness, log) = (client(address), listed("a.example", 0));
    run(async {
        assert_eq!(status(&witness, &log.request(0, 5)).await, 200);
    });
}

/// The section of Sunlight's configuration is valid as it is.
#[test]
fn the_witness_of_sunlight() {
    let place = Place::new("  loglists: [list.txt]\n");
    fs::write(place.path().join("list.txt"), list([])).unwrap();
    let yaml = "listen: [\"127.0.0.1:0\"]\ncheckpoints: lock.db\nwitness:\n  name: \
                witness.example\n  monitoringprefix: https://witness-read.example\n  secret: \
                witness.seed\n  loglists:\n    - list.txt\n  localdirectory: public\n  mirrorname: \
                mirror.example\n  mirrorloglists: [list.txt]\n";
    fs::write(place.path().join("sunlight.yaml"), yaml).unwrap();
    let (code, said) = lucarne(place.path(), &["check", "-c", "sunlight.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "witness witness.example: https://witness.example/");
    assert_has(&said, "witness.mirrorname: is ignored");
}

#[test]
fn a_witness_needs_its_section_and_no_log() {
    let log = log("");
    let (code, said) = lucarne(log.path(), &["witness", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1);
    assert_has(&said, "the configuration has no `witness`");
    let section = "witness:\n  name: witness.example\n  secret: witness.seed\n";
    write_secret(log.path().join("witness.seed"), [5; 32]);
    let file = log.configuration();
    let yaml = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{yaml}\n{section}")).unwrap();
    let (code, said) = lucarne(log.path(), &["witness", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1);
    assert_has(&said, "run `lucarne serve`");
    // `serve` serves both, after `init`: a new lock must not be the lost lock of a witness.
    let init = || lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    for said in [
        "created witness witness.example",
        "kept witness witness.example",
    ] {
        let (code, output) = init();
        assert_eq!(code, 0, "{output}");
        assert_has(&output, said);
    }
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let site = Client::new(format!("http://{}", log.address()));
        let health = site.get("health").await.unwrap().json().unwrap();
        assert_eq!(health["witness"]["name"], NAME);
    });
    assert!(server.stop(Duration::from_secs(30)).unwrap().success());
    // A log and its witness need different prefixes.
    let prefix = format!("{section}  submissionprefix: {}\n", log.url());
    fs::write(&file, format!("{yaml}\n{prefix}")).unwrap();
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1);
    assert_has(&said, "witness.submissionprefix: is also a prefix of log");
}
