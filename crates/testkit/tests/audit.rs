//! Tests of the auditor: it accepts a correct log, and finds each kind of fault.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::HashMap,
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http_body_util::Full;
use hyper::{Response, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use lucarne_ct::{
    Chain, ChainLimits, Entry, EntryKind, LogKey, Policy, Roots, TileLeaf, Validator,
    merkle_tree_leaf,
};
use lucarne_mint::testing::Pki;
use lucarne_testkit::{Audit, Report};
use lucarne_tlog::{Hash, RightEdge, leaf_hash};

const ORIGIN: &str = "log.example.test/audited";
const SIZE: u64 = 300;
const NOW: u64 = 1_790_000_000_000;

/// A log that consists of files only, so that each file can be damaged.
struct Fake {
    key: LogKey,
    audit: Audit,
    files: Arc<Mutex<HashMap<String, Bytes>>>,
    /// Bodies and their SCTs.
    answers: Vec<(EntryKind, String, Vec<u8>)>,
    hashes: Vec<Hash>,
}

impl Fake {
    /// Submits `SIZE` chains, a third of them precertificates. With `twice`, the last entry repeats
    /// the first entry.
    async fn new(twice: bool) -> Self {
        let pki = Pki::shared();
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let roots = pki.roots_pem();
        let validator = Validator::new(
            Arc::new(Roots::from_pem(roots.as_bytes()).0),
            Policy::default(),
        );
        let files = Arc::default();
        let address = serve(Arc::clone(&files)).await;
        let audit = Audit::new(
            &format!("http://{address}"),
            ORIGIN,
            key.public_key_spki(),
            roots.as_bytes(),
        )
        .unwrap();
        let mut fake = Fake {
            key,
            audit,
            files,
            answers: Vec::new(),
            hashes: Vec::new(),
        };
        let mut data = Vec::new();
        let mut first = None;
        for index in 0..SIZE {
            let (kind, body) = match first.clone() {
                Some(first) if twice && index == SIZE - 1 => first,
                _ => submission(pki, index),
            };
            first.get_or_insert((kind, body.clone()));
            let chain = Chain::decode_json(body.as_bytes(), &ChainLimits::default()).unwrap();
            let examined = validator.examine(&chain, kind, NOW).unwrap();
            let entry = validator.verify(examined).unwrap();
            fake.log(index, &entry, &mut data);
            let sct = fake
                .key
                .sign_sct(NOW + index, &entry.signed, index)
                .unwrap();
            fake.answers.push((kind, body, sct.to_json()));
        }
        fake.put("tile/data/001.p/44", &data);
        let hashes = fake.hashes.clone();
        for (tile, bytes) in RightEdge::new().append(&hashes) {
            fake.put(&tile.path(), &bytes);
        }
        fake.put("checkpoint", fake.checkpoint(SIZE, NOW + SIZE).as_bytes());
        fake
    }

    fn log(&mut self, index: u64, entry: &Entry, data: &mut Vec<u8>) {
        let mut leaf = Vec::new();
        merkle_tree_leaf(NOW + index, &entry.signed, index, &mut leaf);
        self.hashes.push(leaf_hash(&leaf));
        TileLeaf::encode(NOW + index, entry, index, data);
        if index == 255 {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(data).unwrap();
            self.put("tile/data/000", &gzip.finish().unwrap());
            data.clear();
        }
        for issuer in entry.issuers.iter() {
            self.put(&format!("issuer/{}", issuer.fingerprint), &issuer.der);
        }
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        self.files.lock().unwrap().insert(path.to_owned(), bytes);
    }

    fn checkpoint(&self, size: u64, timestamp: u64) -> String {
        let mut edge = RightEdge::new();
        edge.append(&self.hashes[..size as usize]);
        self.key
            .sign_checkpoint(ORIGIN, size, &edge.root(), timestamp)
            .unwrap()
    }

    async fn report(&self) -> Report {
        for (kind, body, sct) in &self.answers {
            self.audit.promised(*kind, body.as_bytes(), sct);
        }
        self.audit.run().await.unwrap()
    }

    /// Asserts that the auditor finds exactly the injected fault.
    async fn finds(&self, what: &str) {
        let report = self.report().await;
        assert!(!report.findings.is_empty(), "{what}: not found");
        for finding in &report.findings {
            assert!(finding.contains(what), "{what:?} expected:\n{report}");
        }
    }

    fn spoil(&self, path: &str) {
        let mut files = self.files.lock().unwrap();
        let mut bytes = files[path].to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        files.insert(path.to_owned(), bytes.into());
    }
}

fn submission(pki: &Pki, index: u64) -> (EntryKind, String) {
    let name = format!("n{index}.example.test");
    if index.is_multiple_of(3) {
        let chain = pki.precertificate(&pki.p256, &name).unwrap();
        (EntryKind::Precert, chain.to_json())
    } else {
        let chain = pki.certificate(&pki.p256, &name).unwrap();
        (EntryKind::X509, chain.to_json())
    }
}

async fn serve(files: Arc<Mutex<HashMap<String, Bytes>>>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let files = Arc::clone(&files);
            let service = service_fn(move |request: hyper::Request<_>| {
                let _: &hyper::body::Incoming = request.body();
                let file = files
                    .lock()
                    .unwrap()
                    .get(&request.uri().path()[1..])
                    .cloned();
                let mut response = Response::new(Full::new(file.clone().unwrap_or_default()));
                if file.is_none() {
                    *response.status_mut() = hyper::StatusCode::NOT_FOUND;
                }
                async { Ok::<_, std::convert::Infallible>(response) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[tokio::test]
async fn an_honest_log_passes() {
    let fake = Fake::new(false).await;
    fake.audit
        .saw_checkpoint(fake.checkpoint(0, NOW).as_bytes())
        .unwrap();
    for size in [1, 255, 256, 257] {
        let note = fake.checkpoint(size, NOW + size);
        fake.audit.saw_checkpoint(note.as_bytes()).unwrap();
    }
    let report = fake.report().await;
    report.assert_clean();
    assert_eq!(
        (report.size, report.scts, report.submissions),
        (SIZE, 300, 300)
    );
    assert_eq!((report.checkpoints, report.issuers), (6, 2));
}

#[tokio::test]
async fn the_same_submission_twice_is_found() {
    let report = Fake::new(true).await.report().await;
    let expected = "entries 0 and 299 are the same submission";
    assert!(
        report.findings.iter().any(|finding| finding == expected),
        "{report}"
    );
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.contains("promised twice")),
        "{report}"
    );
}

#[tokio::test]
async fn spoiled_and_missing_files_are_found() {
    let fake = Fake::new(false).await;
    fake.spoil("tile/0/000");
    fake.finds("tile/0/000 differs from the hashes of its data")
        .await;

    let fake = Fake::new(false).await;
    fake.files.lock().unwrap().remove("tile/1/000.p/1");
    fake.finds("tile/1/000.p/1").await;

    let fake = Fake::new(false).await;
    fake.files
        .lock()
        .unwrap()
        .retain(|path, _| !path.starts_with("issuer/"));
    fake.finds("issuer/").await;

    let fake = Fake::new(false).await;
    let issuer = fake
        .files
        .lock()
        .unwrap()
        .keys()
        .find(|path| path.starts_with("issuer/"))
        .cloned();
    fake.spoil(&issuer.unwrap());
    fake.finds("has another fingerprint").await;
}

#[tokio::test]
async fn a_forked_or_shrunk_tree_is_found() {
    let fake = Fake::new(false).await;
    let other = fake
        .key
        .sign_checkpoint(ORIGIN, 100, &Hash([1; 32]), NOW + 100)
        .unwrap();
    fake.audit.saw_checkpoint(other.as_bytes()).unwrap();
    fake.finds("does not belong to this tree").await;

    let fake = Fake::new(false).await;
    let later = fake
        .key
        .sign_checkpoint(ORIGIN, SIZE + 1, &Hash([1; 32]), NOW)
        .unwrap();
    fake.audit.saw_checkpoint(later.as_bytes()).unwrap();
    fake.finds(" size 301").await;

    let fake = Fake::new(false).await;
    fake.audit
        .saw_checkpoint(fake.checkpoint(200, NOW).as_bytes())
        .unwrap();
    fake.finds("older than its newest entry").await;

    let fake = Fake::new(false).await;
    let stranger = LogKey::from_seed(&[8; 32]).unwrap();
    let forged = stranger
        .sign_checkpoint(ORIGIN, 0, &Hash([1; 32]), NOW)
        .unwrap();
    assert!(fake.audit.saw_checkpoint(forged.as_bytes()).is_err());
    fake.finds("checkpoint: ").await;
}

#[tokio::test]
async fn a_broken_promise_is_found() {
    let pki = Pki::shared();
    let promise = |fake: &Fake, body: &str, timestamp, index| {
        let roots = Roots::from_pem(pki.roots_pem().as_bytes()).0;
        let validator = Validator::new(Arc::new(roots), Policy::default());
        let chain = Chain::decode_json(body.as_bytes(), &ChainLimits::default()).unwrap();
        let examined = validator.examine(&chain, EntryKind::X509, NOW).unwrap();
        let entry = validator.verify(examined).unwrap();
        let sct = fake.key.sign_sct(timestamp, &entry.signed, index).unwrap();
        fake.audit
            .promised(EntryKind::X509, body.as_bytes(), &sct.to_json());
    };

    let fake = Fake::new(false).await;
    let lost = pki
        .certificate(&pki.rsa, "lost.example.test")
        .unwrap()
        .to_json();
    promise(&fake, &lost, NOW, 17);
    fake.finds("is not in the log").await;

    let mut fake = Fake::new(false).await;
    let (_, body, _) = fake.answers.remove(1);
    promise(&fake, &body, NOW + 1, 2);
    fake.finds("was promised as").await;

    let fake = Fake::new(false).await;
    let (_, body, _) = fake.answers[1].clone();
    promise(&fake, &body, NOW + 1, 1);
    promise(&fake, &body, NOW + 2, 1);
    fake.finds("promised twice").await;

    let mut fake = Fake::new(false).await;
    fake.answers[4].2 = fake.answers[5].2.clone();
    fake.finds("SCT: ").await;
}
