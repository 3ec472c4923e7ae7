use super::*;
use crate::observe::memory::{Bounds, Memory, Record};
use crate::observe::submission::Submission;
use lucarne_ct::Fingerprint;

const BOUNDS: Bounds = Bounds {
    hosts: 10,
    certificates: 20,
    bytes: 100_000,
};

fn record(memory: &mut Memory, n: u32, bytes: usize) -> Record {
    let issuer = ca().cert_der().to_vec();
    let mut leaf = vec![0; bytes];
    leaf[..4].copy_from_slice(&n.to_be_bytes());
    Record {
        fingerprint: Fingerprint::of(&leaf),
        judgement: judged(&leaf, &SctDeliveries::default(), None),
        leaf: leaf.into(),
        issuers: memory.intern(&[issuer]).0,
        path: Path::default(),
        deliveries: Arc::default(),
        submission: Submission::Not,
        first_ms: 1,
        last_ms: 1,
        handshakes: 0,
    }
}

#[test]
fn what_was_not_seen_for_longest_is_forgotten_and_counted() {
    let mut memory = Memory::new(BOUNDS);
    let first = record(&mut memory, 0, 100);
    let kept = first.fingerprint;
    memory.remember(first);
    for n in 1..1000 {
        let next = record(&mut memory, n, 100);
        let fingerprint = next.fingerprint;
        memory.remember(next);
        memory.saw(&format!("host{n}.example"), fingerprint, u64::from(n));
        memory.saw("always.example", kept, u64::from(n));
    }
    assert_eq!(memory.counts(), (10, 20));
    assert_eq!(memory.forgotten.hosts, 1000 - 10);
    assert_eq!(memory.forgotten.certificates, 1000 - 20);
    assert_eq!(memory.record(&kept).unwrap().handshakes, 999);
    let hosts: Vec<_> = memory.hosts().take(2).map(|host| &host.name[..]).collect();
    assert_eq!(hosts, ["always.example", "host999.example"]);
}

#[test]
fn few_but_large_certificates_find_their_bound_too() {
    let mut memory = Memory::new(BOUNDS);
    for n in 0..20 {
        let next = record(&mut memory, n, 30_000);
        memory.remember(next);
    }
    assert!(
        (2..=3).contains(&memory.counts().1),
        "{:?}",
        memory.counts()
    );
    // The count of bytes stays exact when a record is replaced and when a record grows.
    for _ in 0..100 {
        let next = record(&mut memory, 19, 30_000);
        let fingerprint = next.fingerprint;
        memory.remember(next);
        memory.change(&fingerprint, |record| record.handshakes += 1);
    }
    assert!(
        (2..=3).contains(&memory.counts().1),
        "{:?}",
        memory.counts()
    );
}

#[test]
fn a_host_remembers_its_latest_certificates() {
    let mut memory = Memory::new(BOUNDS);
    let fingerprints: Vec<_> = (0..12u8).map(|n| Fingerprint([n; 32])).collect();
    for fingerprint in fingerprints.iter().chain(&fingerprints[5..6]) {
        memory.saw("one.example", *fingerprint, 1);
    }
    let host = memory.host("one.example").unwrap();
    assert_eq!(host.handshakes, 13);
    assert_eq!(host.certificates.len(), 8);
    let latest: Vec<_> = host.certificates.iter().take(2).collect();
    assert_eq!(latest, [&fingerprints[5], &fingerprints[11]]);
}

#[test]
fn a_chain_is_offered_once() {
    let mut memory = Memory::new(BOUNDS);
    let fingerprint = Fingerprint([1; 32]);
    assert!(memory.offer(fingerprint));
    assert!(!memory.offer(fingerprint));
    memory.forget_offer(&fingerprint);
    assert!(memory.offer(fingerprint));
    for n in 0..70_000u32 {
        let mut other = [2; 32];
        other[..4].copy_from_slice(&n.to_be_bytes());
        memory.offer(Fingerprint(other));
    }
    assert!(memory.offer(fingerprint), "forgotten in favour of others");
}
