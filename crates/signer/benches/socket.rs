//! Measures the CPU time of an SCT that a separate signer signs, compared with one signed in the
//! process. The signer's threads run in this process, so that its clock covers both sides.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::path::Path;

use lucarne_ct::{LogKey, SignedEntry, merkle_tree_leaf};
use lucarne_signer::{Client, Head, MemoryDirectory, Server, SigningLog};
use lucarne_tlog::{EMPTY_ROOT, Frontier, Hash, leaf_hash};
use rustix::time::{ClockId, clock_gettime};

const ORIGIN: &str = "log.example/2026h2";
const TIMESTAMP: u64 = 1_700_000_000_000;
/// Approximate size of the TBSCertificate of a precertificate.
const CERTIFICATE: usize = 1300;
/// Number of SCTs of one measurement, and number of measurements, of which the fastest counts.
const SCTS: usize = 4000;
const TIMES: usize = 25;

fn key() -> LogKey {
    LogKey::from_seed(&[7; 32]).unwrap()
}

fn leaf(index: u64, entry: &SignedEntry) -> Vec<u8> {
    let mut leaf = Vec::new();
    merkle_tree_leaf(TIMESTAMP, entry, index, &mut leaf);
    leaf
}

/// Returns the CPU time of this process per SCT, in microseconds.
fn measured(mut sign: impl FnMut()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let mut once = || {
        let before = now();
        sign();
        (now() - before) / SCTS as f64
    };
    (0..TIMES).map(|_| once()).fold(f64::MAX, f64::min)
}

fn start(place: &Path) -> Client {
    let directory = MemoryDirectory::open(&place.join("memory")).unwrap();
    let memory = directory.of(ORIGIN, &key());
    memory.first_use().unwrap();
    let log = SigningLog::open(ORIGIN, Box::new(key()), &directory).unwrap();
    let users = vec![rustix::process::geteuid().as_raw()];
    let socket = place.join("socket");
    let server = Server::bind(&socket, directory, vec![log], users).unwrap();
    std::thread::spawn(move || server.run());
    Client::new(&socket, key().public_key_spki().to_vec()).unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let certificate = bytes::Bytes::from(vec![0x30; CERTIFICATE]);
    let entry = SignedEntry::X509 { certificate };
    let own = measured(|| {
        let key = key();
        for index in 0..SCTS as u64 {
            black_box(key.sign_sct(TIMESTAMP, &entry, index).unwrap());
        }
    });
    println!("in the process: {own:.1} µs of CPU time per SCT");
    for round in [1, 10, 100, 1000] {
        let place = tempfile::tempdir().unwrap();
        let client = start(place.path());
        let hashes: Vec<Hash> = (0..round).map(|it| leaf_hash(&leaf(it, &entry))).collect();
        let mut tree = Frontier::new();
        hashes.iter().for_each(|hash| tree.push(*hash));
        let empty = (0, EMPTY_ROOT, TIMESTAMP);
        for (size, root, timestamp_ms) in [empty, (round, tree.root(), TIMESTAMP + 1)] {
            let head = Head {
                size,
                root,
                timestamp_ms,
            };
            client.head(head, Vec::new()).await.unwrap();
        }
        let (handle, entry) = (tokio::runtime::Handle::current(), entry.clone());
        let apart = tokio::task::spawn_blocking(move || {
            let before = Frontier::new();
            measured(|| {
                for _ in 0..SCTS as u64 / round {
                    let leaf = |at: usize| leaf(at as u64, &entry);
                    let signed = client.range(&before, &hashes, leaf, |_, it| {
                        black_box(it);
                    });
                    handle.block_on(signed).unwrap();
                }
            })
        });
        let apart = apart.await.unwrap();
        println!(
            "apart, {round} together: {apart:.1} µs, {:.1} more",
            apart - own
        );
    }
}
