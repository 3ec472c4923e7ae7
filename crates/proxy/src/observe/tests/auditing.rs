use super::inventory::{inventory, kinds, options, started};
use super::*;
use crate::observe::ObserveOptions;
use lucarne_ct::{SignedTreeHead, verify_checkpoint};
use lucarne_tlog::{
    EMPTY_ROOT, Hash, Level, RightEdge, Tile, inclusion_proof, leaf_hash, verify_inclusion,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;

/// Files of a log, by their paths.
type Files = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// A log that serves these files. It never responds to requests for files with empty contents.
struct Log {
    n: u8,
    url: String,
    files: Files,
    leaves: Vec<Hash>,
}

impl Log {
    async fn new(n: u8) -> Self {
        let files = Files::default();
        let served = files.clone();
        let url = serve(move |request| {
            let path = request.uri().path_and_query().unwrap().as_str();
            let found = served.lock().get(path.trim_start_matches('/')).cloned();
            async move {
                if found.as_ref().is_some_and(Vec::is_empty) {
                    std::future::pending::<()>().await;
                }
                let mut response = Response::new(Full::default());
                match found {
                    Some(bytes) => *response.body_mut() = Full::from(bytes),
                    None => *response.status_mut() = http::StatusCode::NOT_FOUND,
                }
                response
            }
        });
        let url = url.await;
        Log {
            n,
            url,
            files,
            leaves: Vec::new(),
        }
    }

    fn origin(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    fn listed(&self, is_static: bool) -> Value {
        let key = log_key(self.n);
        let mut log = json!({
            "description": format!("log {}", self.n), "log_id": key.log_id().to_string(),
            "key": base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
            "mmd": 1, "state": {"usable": {"timestamp": "2026-01-01T00:00:00Z"}},
        });
        if is_static {
            log["submission_url"] = json!(format!("{}/", self.url));
            log["monitoring_url"] = json!(format!("{}/", self.url));
            json!({"name": "A", "tiled_logs": [log]})
        } else {
            log["url"] = json!(self.url);
            json!({"name": "A", "logs": [log]})
        }
    }

    /// Issues a certificate for `name` whose SCT promises the next index. The tree gets the entry,
    /// or another one if it is withheld.
    fn issue(&mut self, name: &str, withheld: bool) -> Vec<u8> {
        let template = template(&Pki::shared().leaf(name));
        let bare = ca().sign(&template).unwrap();
        let issuer = Certificate::parse(ca().cert_der()).unwrap();
        let entry = embedded_entry(&Certificate::parse(&bare).unwrap(), &issuer);
        let index = self.leaves.len() as u64;
        let sct = log_key(self.n)
            .sign_sct(now_ms() - 60_000, &entry, index)
            .unwrap();
        self.leaves.push(if withheld {
            leaf_hash(b"other")
        } else {
            sct.leaf_hash(&entry)
        });
        embed(template, &encode_sct_list(&[sct]).unwrap())
    }

    /// Publishes the tree. Returns its checkpoint.
    fn publish(&self) -> String {
        let mut edge = RightEdge::new();
        let mut files = self.files.lock();
        for (tile, bytes) in edge.append(&self.leaves) {
            files.insert(tile.path(), bytes);
        }
        let size = self.leaves.len() as u64;
        let note = log_key(self.n);
        let note = note
            .sign_checkpoint(self.origin(), size, &edge.root(), now_ms())
            .unwrap();
        files.insert("checkpoint".to_owned(), note.clone().into_bytes());
        note
    }

    fn sth(&self, note: &str) -> SignedTreeHead {
        let id = log_key(self.n).log_id();
        SignedTreeHead::of_checkpoint(note.as_bytes(), self.origin(), &id).unwrap()
    }

    /// Publishes the tree for clients of RFC 6962, except proofs of the withheld entries.
    fn publish_proofs(&self, entries: &[Hash]) {
        let sth = self.sth(&self.publish()).to_json();
        let mut files = self.files.lock();
        let size = self.leaves.len() as u64;
        for (index, entry) in (0..).zip(entries) {
            let path = proof(&self.leaves, index);
            let path: Vec<_> = path.iter().map(Hash::to_string).collect();
            let body = json!({"leaf_index": index, "audit_path": path}).to_string();
            files.insert(by_hash(entry, size), body.into_bytes());
        }
        files.insert("ct/v1/get-sth".to_owned(), sth);
    }
}

fn by_hash(leaf: &Hash, size: u64) -> String {
    let hash = crate::observe::filter::encoded(&leaf.to_string());
    format!("ct/v1/get-proof-by-hash?hash={hash}&tree_size={size}")
}

/// Returns the inclusion proof of a leaf of a small tree.
fn proof(leaves: &[Hash], index: u64) -> Vec<Hash> {
    let mut read = |tile: Tile| {
        assert_eq!(tile.level(), Level::Hashes(0));
        let first = tile.start_leaf() as usize;
        let hashes = &leaves[first..first + usize::from(tile.width())];
        Ok::<_, std::convert::Infallible>(hashes.iter().flat_map(|hash| hash.0).collect())
    };
    inclusion_proof(index, leaves.len() as u64, &mut read).unwrap()
}

fn listing(folder: &Path, operators: &[Value]) -> ObserveOptions {
    let list = json!({"version": "7", "operators": operators}).to_string();
    std::fs::write(folder.join("log_list.json"), list).unwrap();
    options(folder)
}

fn see(observer: &Observer, name: &str, leaf: &[u8]) {
    observer.seen(name, &chain(leaf.to_vec()), b"", b"");
}

/// Returns the sums of included, pending and missing entries.
fn sums(observer: &Observer) -> [u64; 3] {
    let found = inventory(observer, "");
    let rows = found["rows"].as_array().unwrap();
    ["included", "pending", "missing"]
        .map(|state| rows.iter().map(|row| row[state].as_u64().unwrap()).sum())
}

#[tokio::test]
async fn withheld_entries_are_found_with_their_evidence_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(1).await;
    // The tiles of the first leaves are full.
    log.leaves = (0..250_u64).map(|n| leaf_hash(&n.to_be_bytes())).collect();
    let observer = started(&listing(folder.path(), &[log.listed(true)])).await;
    let names: Vec<_> = (0..20).map(|n| format!("n{n}.example")).collect();
    for (n, name) in names.iter().enumerate() {
        see(&observer, name, &log.issue(name, n == 3 || n == 17));
    }
    let note = log.publish();
    let spki = log_key(1).public_key_spki().to_vec();
    let (checkpoint, _) = verify_checkpoint(note.as_bytes(), log.origin(), &spki).unwrap();
    until("all entries are looked up", || {
        sums(&observer) == [18, 0, 2]
    })
    .await;

    let missing = inventory(&observer, "show=missing");
    let mut hosts: Vec<_> = missing["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["host"].clone())
        .collect();
    hosts.sort_by_key(Value::to_string);
    assert_eq!(hosts, ["n17.example", "n3.example"]);
    assert_eq!(kinds(&observer), ["missing-entry", "missing-entry"]);
    for event in missing["events"].as_array().unwrap() {
        let body = &event["body"];
        assert_eq!(body["checkpoint"], note);
        assert_eq!(body["log"]["description"], "log 1");
        // The log's own proof shows that another entry has the promised index.
        let proof = &body["proof"];
        let index = proof["index"].as_u64().unwrap();
        let found = Hash::from_base64(proof["leafHash"].as_str().unwrap()).unwrap();
        assert_ne!(body["leafHash"], proof["leafHash"]);
        let path = proof["auditPath"].as_array().unwrap().iter();
        let path: Vec<_> = path
            .map(|hash| Hash::from_base64(hash.as_str().unwrap()).unwrap())
            .collect();
        verify_inclusion(&found, index, checkpoint.size, &checkpoint.root, &path).unwrap();
        let sct = lucarne_ct::Sct::parse(body["sct"].to_string().as_bytes()).unwrap();
        assert_eq!(sct.index(), Some(index));
        let der = base64_simd::STANDARD.decode_to_vec(body["certificateDer"].as_str().unwrap());
        let issuer = Certificate::parse(ca().cert_der()).unwrap();
        let entry = embedded_entry(&Certificate::parse(&der.unwrap()).unwrap(), &issuer);
        let key = lucarne_ct::PublicKey::from_spki(&spki).unwrap();
        sct.verify(&key, &entry).unwrap();
    }
    until("the log has no problem", || observer.troubles().is_empty()).await;
}

#[tokio::test]
async fn a_hanging_log_delays_no_other_log_and_a_restart_continues() {
    let folder = tempfile::tempdir().unwrap();
    let (mut hanging, mut good) = (Log::new(1).await, Log::new(2).await);
    hanging
        .files
        .lock()
        .insert("checkpoint".to_owned(), Vec::new());
    let operators = [hanging.listed(true), good.listed(true)];
    let options = listing(folder.path(), &operators);
    let observer = started(&options).await;
    see(&observer, "a.example", &hanging.issue("a.example", false));
    see(&observer, "b.example", &good.issue("b.example", false));
    good.publish();
    until("the good log is audited", || sums(&observer) == [1, 1, 0]).await;
    drop(observer);
    // The log responds after the restart. No server presents its certificate again.
    hanging.publish();
    let observer = started(&options).await;
    until("the other log is audited", || sums(&observer) == [2, 0, 0]).await;
    assert_eq!(kinds(&observer), [""; 0]);
}

#[tokio::test]
async fn two_histories_are_reported_with_both_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(1).await;
    let options = listing(folder.path(), &[log.listed(true)]);
    let observer = started(&options).await;
    see(&observer, "a.example", &log.issue("a.example", false));
    let old = log.publish();
    until("the first entry is found", || sums(&observer) == [1, 0, 0]).await;
    log.leaves[0] = leaf_hash(b"rewritten");
    let later = log.issue("b.example", false);
    let new = log.publish();
    see(&observer, "b.example", &later);
    until("the fork is reported", || {
        kinds(&observer) == ["two-histories"]
    })
    .await;
    let event = &inventory(&observer, "")["events"][0]["body"];
    assert_eq!(event["checkpoints"], json!([old, new]));
    assert_eq!(sums(&observer), [1, 1, 0]);
    until("the page names the log", || {
        observer.troubles() == ["audit of log 1: the log has signed two histories"]
    })
    .await;
    drop(observer);
    let observer = started(&options).await;
    until("the log is audited again", || {
        !observer.troubles().is_empty()
    })
    .await;
    assert_eq!(kinds(&observer), ["two-histories"]);
}

#[tokio::test]
async fn a_log_that_lies_about_inclusion_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(1).await;
    let observer = started(&listing(folder.path(), &[log.listed(false)])).await;
    let names = ["honest.example", "lie.example", "denied.example"];
    let mut entries = Vec::new();
    for (n, name) in names.iter().enumerate() {
        see(&observer, name, &log.issue(name, false));
        entries.push(log.leaves[n]);
        if n > 0 {
            log.leaves[n] = leaf_hash(b"other");
        }
    }
    // The log proves another leaf for the second entry, and denies the third.
    log.publish_proofs(&entries[..2]);
    until("all entries are looked up", || sums(&observer) == [1, 0, 2]).await;
    let events = inventory(&observer, "")["events"].clone();
    let reason = |host: &str| {
        let events = events.as_array().unwrap().iter();
        let mut events = events.filter(|event| event["body"]["hosts"][0] == host);
        events.next().unwrap()["body"]["proof"]["reason"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(reason("lie.example").starts_with("the log's proof does not verify"));
    assert!(reason("denied.example").contains("404"));
}

#[tokio::test]
async fn an_unverified_tree_head_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(1).await;
    let options = listing(folder.path(), &[log.listed(false)]);
    let observer = started(&options).await;
    see(&observer, "a.example", &log.issue("a.example", true));
    let forged = log_key(2)
        .sign_checkpoint(log.origin(), 0, &EMPTY_ROOT, now_ms())
        .unwrap();
    let id = log_key(2).log_id();
    let forged = SignedTreeHead::of_checkpoint(forged.as_bytes(), log.origin(), &id).unwrap();
    log.files
        .lock()
        .insert("ct/v1/get-sth".to_owned(), forged.to_json());
    until("the signature is refused", || {
        observer
            .troubles()
            .iter()
            .any(|trouble| trouble.contains("does not verify"))
    })
    .await;
    assert_eq!(sums(&observer), [0, 1, 0]);
    drop(observer);

    // A log that the list no longer has is not requested, and its entries are not missing.
    let other = Log::new(2).await;
    let observer = started(&listing(folder.path(), &[other.listed(true)])).await;
    until("the log is unlisted", || {
        observer
            .troubles()
            .iter()
            .any(|trouble| trouble.contains("not in the log list"))
    })
    .await;
    assert_eq!((sums(&observer), kinds(&observer).len()), ([0, 1, 0], 0));
}

#[tokio::test]
async fn an_entry_whose_look_up_fails_delays_no_other_entry() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(1).await;
    let observer = started(&listing(folder.path(), &[log.listed(false)])).await;
    for name in ["failing.example", "good.example"] {
        see(&observer, name, &log.issue(name, false));
    }
    let [failing, good] = log.leaves[..] else {
        unreachable!("two entries");
    };
    let garbage = b"garbage".to_vec();
    log.files.lock().insert(by_hash(&failing, 2), garbage);
    log.publish_proofs(&[leaf_hash(b"other"), good]);
    until("the other entry is found", || sums(&observer) == [1, 1, 0]).await;
    until("the failure is shown", || {
        let troubles = observer.troubles();
        troubles.iter().any(|it| it.contains("get-proof-by-hash"))
    })
    .await;
    assert_eq!(kinds(&observer), [""; 0]);
}
