//! `lucarne mirror`: uploads, and copies of static CT logs.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64_simd::STANDARD;
use bytes::Bytes;
use http::Method;
use lucarne_ct::sha256;
use lucarne_testkit::{
    Client, Launch, LogUnderTest, PushedLog, Response, Server, TempDir, free_port, temp_dir,
    write_secret,
};
use lucarne_tlog::note::parse_signatures;
use lucarne_tlog::{Checkpoint, Cosigner, SignedNote};
use tokio::io::AsyncWriteExt;

use crate::common::{
    EVENT_TIMEOUT, LUCARNE, assert_has, eventually, log, lucarne, pki, ready, run, submission,
};

const NAME: &str = "mirror.example";
const ORIGIN: &str = "pushed.example/2026h2";

/// A directory with the seed, the lock and the copies of a mirror.
struct Place(TempDir);

impl Place {
    fn new(logs: &str) -> (Self, SocketAddr) {
        let place = Place(temp_dir());
        write_secret(place.path().join("mirror.seed"), [6; 32]);
        fs::create_dir(place.path().join("copies")).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let yaml = format!(
            "listen: {address}\ncheckpoints: lock.db\nmirror:\n  name: {NAME}\n  secret: \
             mirror.seed\n  submissionprefix: http://{address}/m/\n  localdirectory: copies\n  \
             logs:\n{logs}"
        );
        fs::write(place.path().join("mirror.yaml"), yaml).unwrap();
        for command in ["init", "check"] {
            let (code, said) = lucarne(place.path(), &[command, "-c", "mirror.yaml"]);
            assert_eq!(code, 0, "{said}");
        }
        (place, address)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn copy(&self, origin: &str) -> PathBuf {
        self.path().join("copies").join(hash(origin))
    }

    fn launch(&self) -> Launch {
        let launch = Launch::new(LUCARNE).directory(self.path());
        launch.args(["mirror", "-c", "mirror.yaml"])
    }

    fn start(&self, address: SocketAddr) -> Server {
        self.launch().start(address).unwrap()
    }
}

fn hash(origin: &str) -> String {
    hex::encode(sha256(&[origin.as_bytes()]))
}

fn client(address: SocketAddr) -> Client {
    Client::new(format!("http://{address}/m/"))
}

#[track_caller]
fn assert_cosigned(note: &SignedNote) {
    let (key, _) = lucarne_ct::mirror_cosigner(&[6; 32], NAME).unwrap();
    assert!(key.verifier().verify(note).unwrap().unwrap() > 0);
}

async fn upload(client: &Client, body: Vec<u8>) -> anyhow::Result<Response> {
    let octets = [("content-type", "application/octet-stream")];
    client
        .request(Method::POST, "add-entries", &octets, Bytes::from(body))
        .await
}

/// The mirror is killed between uploads: it continues after the stored entries, and every
/// checkpoint that it has cosigned is complete.
#[test]
fn uploads_continue_after_kills() {
    let key = Cosigner::ml_dsa_44(ORIGIN, &[4; 32]).unwrap();
    let log = PushedLog::with_key(key, 1500);
    let (place, address) = Place::new(&format!("    - key: {}\n", log.key.verifier()));
    let keygen = ["keygen", "-f", "mirror.seed", "--mirror", NAME];
    let (code, said) = lucarne(place.path(), &keygen);
    assert_eq!(code, 0, "{said}");
    let (key, _) = lucarne_ct::mirror_cosigner(&[6; 32], NAME).unwrap();
    assert_has(&said, &key.verifier().to_string());

    let mirror = client(address);
    let mut server = place.start(address);
    run(async {
        let (mut old, mut next, mut ticket) = (0, 0, Vec::new());
        for size in [300, 700, 1500] {
            let body = log.request(old, size).to_string();
            assert_eq!(
                mirror.post("add-checkpoint", body).await.unwrap().status,
                200
            );
            old = size;
            loop {
                let body = log.upload(next, size, &ticket, 1);
                let uploaded = upload(&mirror, body).await.unwrap();
                let text = uploaded.text();
                server.kill().unwrap();
                server = place.start(address);
                if uploaded.status == 200 {
                    let signatures = parse_signatures(&text).unwrap();
                    let text = log.request(0, size).note.text;
                    assert_cosigned(&SignedNote { text, signatures });
                    next = size;
                    break;
                }
                assert_eq!(uploaded.status, 202, "{text}");
                let lines: Vec<_> = text.split('\n').collect();
                next = lines[1].parse().unwrap();
                ticket = STANDARD.decode_to_vec(lines[2]).unwrap();
            }
            let path = format!("{}/checkpoint", hash(ORIGIN));
            eventually("the checkpoint is served after the restart", async || {
                let note = mirror.get(&path).await.unwrap();
                note.status == 200 && note.text().starts_with(&log.request(0, size).note.text)
            })
            .await;
            // Another process cannot open the copy.
            let assets = lucarne_storage::PosixAssets::watch(place.copy(ORIGIN)).unwrap();
            log.assert_complete(&assets, size).await;
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// The next process has the copies after a hand-over, and serves a log without another upload.
#[test]
fn copies_are_served_after_a_hand_over() {
    let key = Cosigner::ml_dsa_44(ORIGIN, &[4; 32]).unwrap();
    let log = PushedLog::with_key(key, 700);
    let (place, address) = Place::new(&format!("    - key: {}\n", log.key.verifier()));
    let file = place.path().join("mirror.yaml");
    let yaml = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("handover: handover.sock\n{yaml}")).unwrap();
    let mirror = client(address);
    let mut server = place.start(address);
    run(async {
        for (old, size) in [(0, 300), (300, 700)] {
            let body = log.request(old, size).to_string();
            let added = mirror.post("add-checkpoint", body).await.unwrap();
            assert_eq!(added.status, 200, "{}", added.text());
            let body = log.upload(old, size, b"", usize::MAX);
            let uploaded = upload(&mirror, body).await.unwrap();
            assert_eq!(uploaded.status, 200, "{}", uploaded.text());

            // The first process waits for this upload after it has handed over.
            let mut open = tokio::net::TcpStream::connect(address).await.unwrap();
            let head = format!(
                "POST /m/add-entries HTTP/1.1\r\nhost: {address}\r\ncontent-type: \
                 application/octet-stream\r\ncontent-length: 1000\r\n\r\n"
            );
            open.write_all(head.as_bytes()).await.unwrap();
            let mut next = place.launch().spawn().unwrap();
            tokio::task::block_in_place(|| server.wait_for_output("handed over", EVENT_TIMEOUT))
                .unwrap();
            let path = format!("{}/checkpoint", hash(ORIGIN));
            eventually("the checkpoint is served after the hand-over", async || {
                let note = mirror.get(&path).await.unwrap();
                assert!(note.status == 200 || note.status == 503, "{}", note.text());
                note.status == 200 && note.text().starts_with(&log.request(0, size).note.text)
            })
            .await;
            let said = next.output();
            assert!(!said.contains("is in use by"), "{said}");
            drop(open);
            let ended = tokio::task::block_in_place(|| server.wait(EVENT_TIMEOUT)).unwrap();
            assert!(ended.success(), "{}\n{said}", server.output());
            assert_eq!(next.try_wait().unwrap(), None, "{said}");
            server = next;
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A static CT log is copied with its issuers, also after a kill of the mirror.
#[test]
fn a_ct_log_is_copied() {
    let log = log("period: 50ms");
    let key = STANDARD.encode_to_string(log.public_key());
    let from = log.url();
    let (origin, logs) = (
        log.origin(),
        format!(
            "    - origin: {}\n      key: {key}\n      from: {from}\n",
            log.origin()
        ),
    );
    let (place, address) = Place::new(&logs);
    let _log_server = log.start().unwrap();
    let mut server = place.start(address);
    let mirror = client(address);
    run(async {
        ready(&log).await;
        let reader = log.client();
        for count in 1..=3u64 {
            let body = submission(&pki().p256);
            let submitted = reader.post("ct/v1/add-chain", body).await.unwrap();
            assert_eq!(submitted.status, 200, "{}", submitted.text());
            if count == 2 {
                server.kill().unwrap();
                server = place.start(address);
            }
            let path = format!("{}/checkpoint", hash(&origin));
            let mut size = 0;
            eventually("the log is copied", async || {
                let note = mirror.get(&path).await.unwrap();
                if note.status != 200 {
                    return false;
                }
                let note = SignedNote::parse(&note.body).unwrap();
                assert_cosigned(&note);
                size = Checkpoint::parse(&note.text).unwrap().size;
                size == count
            })
            .await;
            for path in [
                format!("tile/0/000.p/{size}"),
                format!("tile/data/000.p/{size}"),
            ] {
                let copied = mirror
                    .get(&format!("{}/{path}", hash(&origin)))
                    .await
                    .unwrap();
                let original = reader.get(&path).await.unwrap();
                assert!(copied.status == 200 && original.status == 200, "{path}");
                let plain = |body| lucarne_ctread::gunzip(body).unwrap();
                assert!(plain(copied.body) == plain(original.body), "{path}");
            }
            let issuers = fs::read_dir(place.copy(&origin).join("issuer")).unwrap();
            assert!(issuers.count() > 0);
        }
        // Clients cannot upload to a copy.
        let upload = upload(&mirror, PushedLog::new(&origin, 5).upload(0, 5, b"", 9)).await;
        assert_eq!(upload.unwrap().status, 404);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A log uploads its entries, and publishes the cosignature of the mirror, which is killed once.
#[test]
fn a_log_uploads_its_entries() {
    let roots = pki().root.certificate_pem();
    let log = LogUnderTest::prepare(LUCARNE, &roots, "period: 50ms\nmirrors: mirrors.txt").unwrap();
    let key = STANDARD.encode_to_string(log.public_key());
    let logs = format!("    - origin: {}\n      key: {key}\n", log.origin());
    let (place, address) = Place::new(&logs);
    let (cosigner, _) = lucarne_ct::mirror_cosigner(&[6; 32], NAME).unwrap();
    let policy = format!(
        "witness M {} http://{address}/m/\nquorum M\n",
        cosigner.verifier()
    );
    fs::write(log.path().join("mirrors.txt"), policy).unwrap();
    let (code, said) = lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    let mut mirror = place.start(address);
    let _log_server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let client = log.client();
        for count in 1..=3 {
            let submitted = client
                .post("ct/v1/add-chain", submission(&pki().p256))
                .await;
            assert_eq!(submitted.unwrap().status, 200);
            if count == 2 {
                mirror.kill().unwrap();
                mirror = place.start(address);
            }
            eventually("a cosigned checkpoint", async || {
                let note = SignedNote::parse(&client.get("checkpoint").await.unwrap().body);
                let note = note.unwrap();
                let is_cosigned = matches!(cosigner.verifier().verify(&note), Ok(Some(_)));
                is_cosigned && Checkpoint::parse(&note.text).unwrap().size == count
            })
            .await;
        }
        eventually("the page shows the mirror", async || {
            let page = client.get("").await.unwrap().text();
            page.contains("<td>M</td>") && page.contains("<td>has 3 entries</td>")
        })
        .await;
        let server = Client::new(format!("http://{}", log.address()));
        let metrics = server.get("metrics").await.unwrap().text();
        assert_has(
            &metrics,
            "lucarne_mirrored_entries{log=\"test\",witness=\"M\"} 3",
        );
    });
    assert!(mirror.stop(EVENT_TIMEOUT).unwrap().success());
    // The copy is checked by the origin of the log.
    let (code, said) = lucarne(place.path(), &["fsck", "-c", "mirror.yaml", &log.origin()]);
    assert_eq!(code, 0, "{said}");
}

/// Damaged files of a copy are found, and restored from another copy.
#[test]
fn a_copy_is_checked_and_repaired() {
    let log = PushedLog::new(ORIGIN, 600);
    let (place, address) = Place::new(&format!("    - key: {}\n", log.key.verifier()));
    let mut server = place.start(address);
    run(async {
        let mirror = client(address);
        let added = mirror.post("add-checkpoint", log.request(0, 600).to_string());
        assert_eq!(added.await.unwrap().status, 200);
        let body = log.upload(0, 600, b"", usize::MAX);
        assert_eq!(upload(&mirror, body).await.unwrap().status, 200);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let copy = place.copy(ORIGIN);
    let other = place.path().join("other");
    let damaged = ["tile/entries/000", "tile/entries/002.p/88", "tile/0/001"];
    for path in damaged {
        fs::create_dir_all(other.join(path).parent().unwrap()).unwrap();
        fs::copy(copy.join(path), other.join(path)).unwrap();
    }
    let checked = |arguments: &[&str], expected: i32| {
        let (code, said) = lucarne(place.path(), arguments);
        assert_eq!(code, expected, "{said}");
        said
    };
    let fsck = ["fsck", "-c", "mirror.yaml"];
    assert_has(
        &checked(&fsck, 0),
        "right: 0 wrong, 0 unreadable; 600 of 600 entries",
    );
    fs::write(copy.join(damaged[0]), b"wrong").unwrap();
    fs::remove_file(copy.join(damaged[1])).unwrap();
    fs::write(copy.join(damaged[2]), [7; 8192]).unwrap();
    let said = checked(&fsck, 1);
    for path in damaged {
        assert_has(&said, path);
    }
    assert_has(&said, "wrong: 3 wrong, 0 unreadable");
    let wrong = place.path().join("wrong");
    fs::create_dir_all(wrong.join("tile/0")).unwrap();
    fs::write(wrong.join("tile/0/001"), [8; 8192]).unwrap();
    let repair = [
        "repair",
        "-c",
        "mirror.yaml",
        ORIGIN,
        "--from",
        "wrong",
        "--from",
        "other",
    ];
    let said = checked(&[&repair[..], &["--dry-run"]].concat(), 1);
    assert_has(&said, "3 to be repaired, 0 wrong");
    let said = checked(&repair, 0);
    assert_has(&said, "not taken from");
    assert_has(&said, "3 repaired, 0 wrong");
    checked(&fsck, 0);
}

/// Each prefix of the mirror must differ from both prefixes of the witness.
#[test]
fn a_mirror_has_prefixes_of_its_own() {
    let key = Cosigner::ed25519("log.example", &[1; 32]).unwrap();
    let (place, address) = Place::new(&format!("    - key: {}\n", key.verifier()));
    let yaml = fs::read_to_string(place.path().join("mirror.yaml")).unwrap();
    let yaml = yaml.replace(
        "  localdirectory",
        &format!("  monitoringprefix: http://{address}/r/\n  localdirectory"),
    );
    write_secret(place.path().join("witness.seed"), [5; 32]);
    for (submission, monitoring, code) in [("a", "b", 0), ("r", "b", 1), ("a", "m", 1)] {
        let witness = format!(
            "witness:\n  name: witness.example\n  secret: witness.seed\n  submissionprefix: \
             http://{address}/{submission}/\n  monitoringprefix: http://{address}/{monitoring}/\n"
        );
        fs::write(place.path().join("both.yaml"), format!("{yaml}\n{witness}")).unwrap();
        let (found, said) = lucarne(place.path(), &["check", "-c", "both.yaml"]);
        assert_eq!(found, code, "{said}");
        assert_eq!(
            said.contains("is also a prefix of the witness"),
            code == 1,
            "{said}"
        );
    }
}
