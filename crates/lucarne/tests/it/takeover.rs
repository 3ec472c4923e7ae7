//! Logs of Sunlight and TesseraCT continue as logs of Lucarne, and back, with real directories of
//! these programs.

mod adopt;
mod bucket;
mod edges;
mod json;
mod living;

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use lucarne_ct::{EntryKind, LogKey, Roots, SignedEntryRef, TileLeafRef, verify_checkpoint};
use lucarne_mint::{Chain, Time};
use lucarne_testkit::{Audit, Client, Launch, Server, TempDir, free_port, takeover};
use lucarne_tlog::SignedNote;
use serde_json::Value;

use super::common::{EVENT_TIMEOUT, LUCARNE, assert_has, edit, eventually, lucarne, pki, run};

/// Entries of each kind that are submitted again.
const AGAIN: usize = 12;

/// 2027-03-01 in Unix seconds, which is inside the logs' windows.
const MARCH: i64 = 1_803_859_200;

/// The directory of a log, and the address at which it is served.
struct Taken {
    directory: TempDir,
    port: u16,
    key: LogKey,
    /// The origin: the host and the served path.
    origin: (&'static str, &'static str),
}

impl Taken {
    fn sunlight(archive: &str, path: &'static str) -> Option<Self> {
        let directory = takeover(archive)?;
        let port = free_port();
        let file = directory.path().join("sunlight.yaml");
        let yaml = fs::read_to_string(&file).unwrap();
        let listen = yaml
            .lines()
            .find(|line| line.contains("127.0.0.1:"))
            .unwrap();
        edit(&file, listen, &format!("  - \"127.0.0.1:{port}\""));
        // The logs must not retire while the test exists.
        edit(
            &file,
            "notafterlimit: 2027-07-01",
            "notafterlimit: 2127-07-01",
        );
        let seed = fs::read(directory.path().join("seed.bin")).unwrap();
        Some(Taken {
            directory,
            port,
            key: LogKey::from_seed(&seed).unwrap(),
            origin: ("localhost", path),
        })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn data(&self) -> std::path::PathBuf {
        self.path().join("log/data")
    }

    fn start(&self, args: &[&str]) -> Server {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        // The logs last signed some time ago.
        let today = Timestamp::now().strftime("%F").to_string();
        let launch = Launch::new(LUCARNE)
            .args(args)
            .args(["--confirm-clock", &today]);
        let launch = launch.directory(self.path());
        launch.start(address).unwrap()
    }

    /// Returns the time of the log's ML-DSA-44 cosignature on a checkpoint, in Unix seconds.
    fn cosigned(&self, checkpoint: &[u8]) -> u64 {
        let (host, path) = self.origin;
        let cosigner = self
            .key
            .cosigner(&format!("{host}/{path}"))
            .unwrap()
            .unwrap();
        let note = SignedNote::parse(checkpoint).unwrap();
        cosigner.verifier().verify(&note).unwrap().unwrap()
    }

    fn client(&self) -> Client {
        Client::new(format!("http://127.0.0.1:{}/{}", self.port, self.origin.1))
    }

    async fn ready(&self) {
        let site = Client::new(format!("http://127.0.0.1:{}", self.port));
        eventually("the log is healthy", async || {
            site.get("health")
                .await
                .is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }

    /// Returns an auditor that trusts the log's original roots and the test root.
    fn audit(&self) -> Audit {
        let roots = fs::read_to_string(self.path().join("roots.pem")).unwrap() + &pki().roots_pem();
        let (host, path) = self.origin;
        let url = format!("http://127.0.0.1:{}/{path}", self.port);
        let origin = format!("{host}/{path}");
        Audit::new(&url, &origin, self.key.public_key_spki(), roots.as_bytes()).unwrap()
    }

    /// Returns the kind and the body of the submission for the entry at `index`.
    async fn submitted(&self, index: u64) -> (EntryKind, String) {
        let client = self.client();
        let size = size(&client.get("checkpoint").await.unwrap().text());
        let (tile, width) = (index / 256, (size - index / 256 * 256).min(256));
        let path = match width {
            256 => format!("tile/data/{tile:03}"),
            width => format!("tile/data/{tile:03}.p/{width}"),
        };
        let bytes = plain(&client.get(&path).await.unwrap().ok().unwrap());
        let mut rest = &bytes[..];
        loop {
            let leaf = TileLeafRef::read(&mut rest).unwrap();
            if leaf.index != index {
                continue;
            }
            let (kind, first) = match (&leaf.signed, leaf.precertificate) {
                (SignedEntryRef::X509 { certificate }, _) => (EntryKind::X509, *certificate),
                (_, precertificate) => (EntryKind::Precert, precertificate.unwrap()),
            };
            let mut chain = vec![first.to_vec()];
            for fingerprint in leaf.fingerprints {
                let issuer = client.get(&format!("issuer/{fingerprint}")).await.unwrap();
                chain.push(issuer.ok().unwrap().to_vec());
            }
            return (kind, Chain::new(chain).to_json());
        }
    }

    /// Checks that the log responds to old submissions with the same timestamp and index. `audit`
    /// gets both SCTs.
    async fn remembers(&self, scts: &str, audit: &Audit) {
        let text = fs::read_to_string(self.path().join(scts)).unwrap();
        let scts: Vec<Value> = serde_json::from_str(&text).unwrap();
        for old in scts.iter().step_by(scts.len() / AGAIN) {
            let (kind, body) = self.submitted(leaf_index(old)).await;
            let path = match kind {
                EntryKind::X509 => "ct/v1/add-chain",
                EntryKind::Precert => "ct/v1/add-pre-chain",
            };
            let answer = self.client().post(path, body.clone()).await.unwrap();
            let new = answer.json().unwrap();
            assert_eq!(answer.status, 200, "{new}");
            for part in ["id", "timestamp", "extensions"] {
                assert_eq!(new[part], old[part]);
            }
            for mut sct in [old.clone(), new] {
                sct["sct_version"] = 0.into();
                audit.promised(kind, body.as_bytes(), sct.to_string().as_bytes());
            }
        }
    }

    /// Submits a new certificate, and returns the SCT.
    async fn takes_one_more(&self) -> Value {
        let mut leaf = pki().leaf("www.example.com");
        leaf.not_after = Time::from_unix(MARCH);
        let chain = pki().p256.chain(pki().p256.issue(&leaf).unwrap());
        let answer = self
            .client()
            .post("ct/v1/add-chain", chain.to_json())
            .await
            .unwrap();
        let sct = answer.json().unwrap();
        assert_eq!(answer.status, 200, "{sct}");
        sct
    }

    fn accept_ours(&self) {
        let file = self.path().join("roots.pem");
        let roots = fs::read_to_string(&file).unwrap() + &pki().roots_pem();
        fs::write(file, roots).unwrap();
    }
}

/// Returns a tile without its compression, if any.
fn plain(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(bytes).read_to_end(&mut plain).unwrap()
    } else {
        plain.write(bytes).unwrap()
    };
    plain
}

/// Returns the index from the only extension of these SCTs (static-ct-api, "SCT Extension").
fn leaf_index(sct: &Value) -> u64 {
    let extensions = sct["extensions"].as_str().unwrap();
    let bytes = base64_simd::STANDARD.decode_to_vec(extensions).unwrap();
    let index = bytes.strip_prefix(&[0, 0, 5]).unwrap();
    index
        .iter()
        .fold(0, |index, byte| index << 8 | u64::from(*byte))
}

fn size(checkpoint: &str) -> u64 {
    checkpoint.lines().nth(1).unwrap().parse().unwrap()
}

/// Sets the attribute that Sunlight, run as root, sets on immutable files, and removes it at the
/// end, because otherwise the files could not be deleted.
struct Immutable<'p>(&'p Path);

impl<'p> Immutable<'p> {
    fn set(data: &'p Path) -> Self {
        if !chattr("+i", data) {
            println!("immutable files are left out: chattr +i is not permitted here");
        }
        Self(data)
    }
}

impl Drop for Immutable<'_> {
    fn drop(&mut self) {
        chattr("-i", self.0);
    }
}

fn chattr(what: &str, data: &Path) -> bool {
    let folders = [data.join("tile"), data.join("issuer")];
    let mut find = Command::new("find");
    let find = find
        .args(folders)
        .args(["-type", "f", "-exec", "chattr", what, "{}", "+"]);
    find.output().is_ok_and(|output| output.status.success())
}

/// Returns the row that Sunlight reads.
fn locked(file: &Path, key: &LogKey) -> Vec<u8> {
    let database = rusqlite::Connection::open(file).unwrap();
    let query = "SELECT CAST(body AS BLOB) FROM checkpoints WHERE logID = ?";
    let row = database.query_row(query, [key.log_id().0], |row| row.get(0));
    row.unwrap()
}

#[test]
fn sunlight_in_and_out_again() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    log.accept_ours();
    let data = log.data();
    let _immutable = Immutable::set(&data);
    let (code, said) = lucarne(log.path(), &["check", "-c", "sunlight.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "acme: is ignored");
    assert_has(&said, "Sunlight's cache?");
    assert_has(&said, "lucarne serve --confirm-clock");

    let before = fs::read(data.join("checkpoint")).unwrap();
    assert!(log.cosigned(&before) > 1_790_000_000);
    let mut server = log.start(&["serve", "-c", "sunlight.yaml"]);
    let audit = log.audit();
    run(async {
        log.ready().await;
        for scts in ["scts-p256.json", "scts-pre.json", "scts-rsa2048.json"] {
            log.remembers(scts, &audit).await;
        }
        // Beyond the end of a tile, so that Lucarne writes full tiles as well.
        for index in 2915..3100 {
            assert_eq!(leaf_index(&log.takes_one_more().await), index);
        }
        let report = audit.run().await.unwrap();
        report.assert_clean();
        assert_eq!(report.size, 3100);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());

    // The files that Sunlight reads at startup: the lock, and the right edge.
    let checkpoint = fs::read(data.join("checkpoint")).unwrap();
    let row = locked(&log.path().join("checkpoints.db"), &log.key);
    assert_eq!(row, checkpoint);
    assert!(log.cosigned(&row) > log.cosigned(&before));
    let origin = "localhost/sun2027h1";
    verify_checkpoint(&row, origin, log.key.public_key_spki()).unwrap();
    assert_eq!(size(&String::from_utf8_lossy(&checkpoint)), 3100);
    for (tile, length) in [("tile/0/012.p/28", 28 * 32), ("tile/1/000.p/12", 12 * 32)] {
        assert_eq!(fs::read(data.join(tile)).unwrap().len(), length, "{tile}");
    }
    for tile in ["tile/data/011", "tile/data/012.p/28"] {
        let bytes = fs::read(data.join(tile)).unwrap();
        assert!(bytes.starts_with(&[0x1f, 0x8b]), "{tile} is not gzip");
    }
    assert_eq!(fs::read_dir(data.join("staging")).unwrap().count(), 0);
}

/// The log still accepts all roots that Sunlight ever accepted, in addition to CCADB's roots.
#[test]
fn the_roots_that_sunlight_accepted() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    // The CCADB report does not contain these roots.
    let ours = pki().root.certificate_pem();
    let report = format!("\"X.509 Certificate (PEM)\",\"Mozilla Status\"\n\"'{ours}'\",Included\n");
    fs::write(log.path().join("report.csv"), report).unwrap();
    let ccadb = "ccadbroots: trusted\n    rootsurl: report.csv";
    edit(&log.path().join("sunlight.yaml"), "roots: roots.pem", ccadb);
    let mut server = log.start(&["serve", "-c", "sunlight.yaml"]);
    let audit = log.audit();
    run(async {
        log.ready().await;
        let answer = log.client().get("ct/v1/get-roots").await.unwrap();
        let answer = answer.json().unwrap();
        let served = answer["certificates"].as_array().unwrap();
        let left = fs::read(log.data().join("_roots.pem")).unwrap();
        let (left, skipped) = Roots::from_pem(&left);
        assert!(skipped.is_empty() && !left.is_empty());
        assert_eq!(served.len(), left.len() + 1);
        for root in left.iter() {
            let der = base64_simd::STANDARD.encode_to_string(root.der());
            assert!(served.contains(&der.into()), "{}", root.subject());
        }
        log.remembers("scts-p256.json", &audit).await;
        log.takes_one_more().await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_killed_sunlight() {
    let Some(log) = Taken::sunlight("sunlight-killed", "k") else {
        return;
    };
    log.accept_ours();
    let data = log.data();
    let before = fs::read_to_string(data.join("checkpoint")).unwrap();
    assert_eq!(size(&before), 360);
    let _immutable = Immutable::set(&data);
    let (code, said) = lucarne(log.path(), &["check", "-c", "sunlight.yaml"]);
    assert_eq!(code, 0, "{said}");
    // The command only read.
    assert_eq!(fs::read_to_string(data.join("checkpoint")).unwrap(), before);
    assert!(!data.join(".lucarne").exists());

    let mut server = log.start(&["serve", "-c", "sunlight.yaml"]);
    run(async {
        log.ready().await;
        assert_eq!(leaf_index(&log.takes_one_more().await), 400);
        let report = log.audit().run().await.unwrap();
        report.assert_clean();
        assert_eq!(report.size, 401);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A bundle that does not lead to the signed root is refused by its name, and stays in place.
#[test]
fn a_killed_sunlights_bundle_that_is_damaged() {
    let Some(log) = Taken::sunlight("sunlight-killed", "k") else {
        return;
    };
    let staging = fs::read_dir(log.data().join("staging")).unwrap();
    let bundle = staging.map(|entry| entry.unwrap().path()).next().unwrap();
    let bytes = fs::read(&bundle).unwrap();
    fs::remove_file(&bundle).unwrap();
    fs::write(&bundle, &bytes[..bytes.len() / 2]).unwrap();
    let (code, said) = lucarne(log.path(), &["check", "-c", "sunlight.yaml"]);
    assert_eq!(code, 3, "{said}");
    assert_has(&said, "staging/400-4e37d15f");
    assert_has(
        &said,
        "from the published tree of 360 entries to the signed tree of 400 entries",
    );
    assert_has(&said, "Start that Sunlight again");
    assert!(bundle.exists());
}

/// Files of other software are valid as written: names tiles, bundles of a killed Sunlight, and
/// TesseraCT's timestamps, which are not monotonic.
#[test]
fn their_directories_are_right() {
    for (archive, data, size) in [
        ("sunlight-clean", "log/data", 2915),
        ("sunlight-killed", "log/data", 360),
        ("tesseract", "store", 2091),
    ] {
        let Some(directory) = takeover(archive) else {
            return;
        };
        let pem = fs::read_to_string(directory.path().join("key.pem"));
        let key = match pem {
            Ok(pem) => LogKey::from_pem(&pem),
            Err(_) => LogKey::from_seed(&fs::read(directory.path().join("seed.bin")).unwrap()),
        };
        let key = base64_simd::STANDARD.encode_to_string(key.unwrap().public_key_spki());
        let checkpoint = fs::read_to_string(directory.path().join(data).join("checkpoint"));
        let checkpoint = checkpoint.unwrap();
        let origin = checkpoint.lines().next().unwrap();
        let whose = ["--origin", origin, "--log-public-key", &key];
        let (code, said) = lucarne(
            directory.path(),
            &[&["fsck", "--at", data], &whose[..]].concat(),
        );
        assert_eq!(code, 0, "{archive}: {said}");
        assert_has(&said, &format!("{size} of {size} entries checked"));
        let is_disordered = said.contains("entries have an older timestamp than an earlier entry");
        assert_eq!(is_disordered, archive == "tesseract", "{archive}: {said}");
    }
}

/// Each line of Sunlight's names tiles equals the line that Lucarne generates, byte for byte.
#[test]
fn names_tiles_are_those_of_sunlight() {
    let Some(directory) = takeover("sunlight-clean") else {
        return;
    };
    let tiles = directory.path().join("log/data/tile");
    let (mut folders, mut compared) = (vec![tiles.join("names")], 0);
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let place = path.strip_prefix(tiles.join("names")).unwrap();
            let data = plain(&fs::read(tiles.join("data").join(place)).unwrap());
            let (mut rest, mut lines) = (&data[..], Vec::new());
            while !rest.is_empty() {
                let leaf = TileLeafRef::read(&mut rest).unwrap();
                lucarne_ct::TrimmedEntry::of(&leaf).write_line(&mut lines);
            }
            let theirs = plain(&fs::read(&path).unwrap());
            assert!(theirs == lines, "{}", place.display());
            compared += 1;
        }
    }
    assert!(compared > 11, "{compared}");
}

#[test]
fn tesseract_by_its_flags() {
    let Some(directory) = takeover("tesseract") else {
        return;
    };
    let pem = fs::read_to_string(directory.path().join("key.pem")).unwrap();
    let log = Taken {
        port: free_port(),
        key: LogKey::from_pem(&pem).unwrap(),
        origin: ("ct.example.org", "t2027h1"),
        directory,
    };
    let endpoint = format!("--http_endpoint=127.0.0.1:{}", log.port);
    let flags = [
        "--origin=ct.example.org/t2027h1",
        "--private_key=key.pem",
        "--storage_dir=store",
        "--roots_pem_file=roots.pem",
        &endpoint,
        "--checkpoint_interval=200ms",
        "--batch_max_age=250ms",
        "--enable_publication_awaiter",
    ];
    // TesseraCT has no lock: it is created once, from the published checkpoint.
    let (code, said) = lucarne(log.path(), &[&["lock", "rebuild"], &flags[..]].concat());
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "is now at 2091 entries");
    let (code, said) = lucarne(log.path(), &[&["lock", "rebuild"], &flags[..]].concat());
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "replace it with --replace-older");

    let mut server = log.start(&[&["serve"], &flags[..]].concat());
    let audit = log.audit();
    run(async {
        log.ready().await;
        for scts in ["scts-p256.json", "scts-pre.json", "scts-rsa2048.json"] {
            log.remembers(scts, &audit).await;
        }
        let report = audit.run().await.unwrap();
        report.assert_clean();
        assert_eq!(report.size, 2091);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    assert_has(
        &server.output(),
        "--batch-max-age: is a flag of TesseraCT, and ignored",
    );
}
