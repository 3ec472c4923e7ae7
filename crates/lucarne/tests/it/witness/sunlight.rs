//! The witness of Sunlight, taken over and given back. Keys and values of the lock are computed
//! here as in Sunlight.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use lucarne_ct::{sha256, witness_cosigners};
use lucarne_testkit::free_port;
use lucarne_tlog::SignedNote;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use super::{NAME, Place, add, assert_cosigned, client, keys, list, listed, status};
use crate::common::{assert_has, edit, lucarne, run};

/// A log with a cosigned checkpoint, and a log without one.
const ORIGINS: [&str; 2] = ["a.example", "b.example"];

/// Files and lock of a stopped Sunlight.
struct Sunlight {
    place: Place,
    address: SocketAddr,
}

impl Sunlight {
    /// Creates the state after a checkpoint of 13 entries.
    fn new() -> Self {
        let place = Place::new("");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let yaml = format!(
            "listen: [\"{address}\"]\ncheckpoints: lock.db\nwitness:\n  name: {NAME}\n  \
             submissionprefix: http://{address}/w\n  monitoringprefix: http://{address}/w\n  \
             secret: witness.seed\n  loglists: [list.txt]\n  localdirectory: public\n"
        );
        fs::write(place.path().join("sunlight.yaml"), yaml).unwrap();
        fs::write(place.path().join("list.txt"), list([])).unwrap();
        let sunlight = Sunlight { place, address };
        let note = sunlight.cosigned(13).encode();
        sunlight.store("witness log\n", ORIGINS[0], note.as_bytes());
        let meta = ORIGINS.map(|origin| {
            let key = listed(origin, 0).key.verifier().to_string();
            (
                origin.to_owned(),
                json!({"Verifiers": [key], "Mirror": false}),
            )
        });
        let config = json!({"log_meta": serde_json::Map::from_iter(meta)}).to_string();
        sunlight.store("witness config\n", "", config.as_bytes());
        fs::create_dir_all(sunlight.checkpoint(ORIGINS[0]).parent().unwrap()).unwrap();
        fs::write(sunlight.checkpoint(ORIGINS[0]), note).unwrap();
        let keys = keys().map(|key| key.to_string());
        let about = json!({
            "name": NAME,
            "submission_url": format!("http://{address}/w/"),
            "monitoring_url": format!("http://{address}/w/"),
            "verifier_keys": keys,
            "software": {"name": "filippo.io/sunlight", "version": "test"},
        });
        fs::write(sunlight.public("witness.v0.json"), about.to_string()).unwrap();
        sunlight
    }

    fn cosigned(&self, size: u64) -> SignedNote {
        let log = listed(ORIGINS[0], 0);
        let mut note = log.signed(&log.checkpoint(size));
        for cosigner in witness_cosigners(&[5; 32], NAME).unwrap() {
            let line = cosigner.cosign(&note.text, 1_790_000_000).unwrap();
            note.signatures.push(line);
        }
        note
    }

    fn public(&self, name: &str) -> PathBuf {
        self.place.path().join("public").join(name)
    }

    fn checkpoint(&self, origin: &str) -> PathBuf {
        let hash = hex::encode(sha256(&[origin.as_bytes()]));
        self.public(&format!("{hash}/checkpoint"))
    }

    fn row(kind: &str, origin: &str) -> [u8; 32] {
        let [ed25519, _] = keys();
        let key = ed25519.public_key();
        sha256(&[b"\x05\x00", kind.as_bytes(), key, origin.as_bytes()])
    }

    fn database(&self) -> Connection {
        Connection::open(self.place.path().join("lock.db")).unwrap()
    }

    fn store(&self, kind: &str, origin: &str, body: &[u8]) {
        let statement = "INSERT OR REPLACE INTO checkpoints (logID, body) VALUES (?, ?)";
        let row = Self::row(kind, origin);
        self.database()
            .execute(statement, params![row, body])
            .unwrap();
    }

    fn stored(&self, kind: &str, origin: &str) -> Option<Vec<u8>> {
        let statement = "SELECT CAST(body AS BLOB) FROM checkpoints WHERE logID = ?";
        let row = params![Self::row(kind, origin)];
        let read = |row: &rusqlite::Row<'_>| row.get(0);
        self.database()
            .query_row(statement, row, read)
            .optional()
            .unwrap()
    }

    fn run(&self, args: &[&str]) -> (i32, String) {
        let args = [args, &["-c", "sunlight.yaml", "--witness"]].concat();
        lucarne(self.place.path(), &args)
    }
}

#[test]
fn a_witness_is_taken_over_and_given_back() {
    let sunlight = Sunlight::new();
    let log = listed(ORIGINS[0], 0);
    for (args, said) in [
        (&["adopt", "--check"][..], "can be taken over"),
        (&["adopt"], "nothing had to be written"),
    ] {
        let (code, output) = sunlight.run(args);
        assert_eq!(code, 0, "{output}");
        assert_has(&output, said);
        assert_has(&output, "2 logs of this witness, 1 of them cosigned");
    }
    let mut server = sunlight.place.start("sunlight", sunlight.address);
    let witness = client(sunlight.address);
    run(async {
        assert_eq!(status(&witness, &log.request(0, 13)).await, 409);
        let added = add(&witness, &log.request(13, 20)).await.unwrap();
        assert_eq!(added.status, 200, "{}", added.text());
        assert_cosigned(&log.request(13, 20).note.text, &added.text());
        let about = witness.get("witness.v0.json").await.unwrap();
        let before: Value =
            serde_json::from_slice(&fs::read(sunlight.public("witness.v0.json")).unwrap()).unwrap();
        let mut about = about.json().unwrap();
        about["software"] = before["software"].clone();
        assert_eq!(about, before);
    });
    server.kill().unwrap();

    // Without the directory, nothing is written.
    let file = sunlight.place.path().join("sunlight.yaml");
    edit(&file, "localdirectory: public", "logs: []");
    let (code, output) = sunlight.run(&["give-back", "--to", "sunlight"]);
    assert_eq!(code, 2, "{output}");
    assert_has(&output, "`witness.localdirectory` is missing");
    assert_eq!(sunlight.stored("witness log\n", ORIGINS[1]), None);
    // A log of `logs` that is in a list, too, is known to Sunlight.
    let key = |origin: &str| listed(origin, 0).key.verifier().to_string();
    let both = format!("[{}, {}]", key(ORIGINS[0]), key("own.example"));
    edit(
        &file,
        "logs: []",
        &format!("localdirectory: public\n  logs: {both}"),
    );
    let (code, output) = sunlight.run(&["give-back", "--to", "sunlight"]);
    assert_eq!(code, 0, "{output}");
    assert_has(&output, "does not know the log own.example");
    assert!(!output.contains("the log a.example"), "{output}");
    assert_has(&output, "1 checkpoint written");
    let record = sunlight.stored("witness log\n", ORIGINS[0]).unwrap();
    assert_eq!(fs::read(sunlight.checkpoint(ORIGINS[0])).unwrap(), record);
    assert_has(std::str::from_utf8(&record).unwrap(), "a.example\n20\n");
    // Sunlight requires a record of each log that it knows.
    assert_eq!(
        sunlight.stored("witness log\n", ORIGINS[1]),
        Some(Vec::new())
    );
    assert!(!sunlight.checkpoint(ORIGINS[1]).exists());
    let config = sunlight.stored("witness config\n", "").unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["log_meta"].as_object().unwrap().len(), 2);
}

#[test]
fn a_witness_of_another_key_or_with_a_stale_lock_is_refused() {
    let sunlight = Sunlight::new();
    let refused = |why: &str| {
        let (code, output) = sunlight.run(&["adopt"]);
        assert_eq!(code, 1, "{output}");
        assert_has(&output, why);
        assert_has(&output, "nothing was written");
    };
    fs::write(
        sunlight.checkpoint(ORIGINS[0]),
        sunlight.cosigned(20).encode(),
    )
    .unwrap();
    refused("the lock is older than the published checkpoint of a.example with 20 entries");
    // The same size, with another root.
    let mut other = sunlight.cosigned(13);
    other.text = listed(ORIGINS[0], 1).checkpoint(13).to_string();
    fs::write(sunlight.checkpoint(ORIGINS[0]), other.encode()).unwrap();
    refused("or has another history");
    // A log that the lock lacks.
    let unknown = sunlight.checkpoint("c.example");
    fs::create_dir_all(unknown.parent().unwrap()).unwrap();
    let log = listed("c.example", 0);
    fs::write(&unknown, log.signed(&log.checkpoint(5)).encode()).unwrap();
    refused("the lock does not know the log c.example");
    // Unreadable: a directory.
    fs::remove_file(&unknown).unwrap();
    fs::create_dir(&unknown).unwrap();
    refused("cannot read");
    fs::remove_dir(&unknown).unwrap();
    let file = sunlight.place.path().join("sunlight.yaml");
    edit(&file, "witness.example", "other.example");
    refused("witness.v0.json has other keys");
    refused("the lock has no logs of this witness");
}
