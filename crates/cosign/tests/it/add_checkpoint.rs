//! The rules of `add-checkpoint` (C2SP tlog-witness).

use std::sync::atomic::{AtomicUsize, Ordering};

use lucarne_cosign::{InvalidWitness, Malformed, Refusal};
use lucarne_ct::{CheckpointVerifier, LogKey};

use super::*;

#[tokio::test]
async fn a_growing_log_is_cosigned() {
    let (log, lock) = (Log::new(ORIGIN, 0), memory());
    let witness = witness(&[ORIGIN], lock);
    assert_eq!(recorded(&witness).await, None);
    for (old, size) in [(0, 0), (0, 5), (5, 5), (5, 13), (13, 40), (40, 40)] {
        let mut request = log.request(old, size);
        // The witness ignores lines of unknown keys, and does not store them.
        let mut other = request.note.signatures[0].clone();
        other.key_id = [0; 4];
        request.note.signatures.insert(0, other);
        // A repeated line is stored once.
        let line = request.note.signatures[1].clone();
        request.note.signatures.push(line);
        let lines = send(&witness, &request).await.unwrap();
        assert_eq!(cosigned(&request.note.text, &lines), NOW);

        let stored = recorded(&witness).await.unwrap();
        let stored = SignedNote::parse(stored.as_bytes()).unwrap();
        assert_eq!(stored.text, request.note.text);
        assert_eq!(stored.signatures[0], request.note.signatures[1]);
        assert_eq!(stored.signatures[1..], lines);
    }
}

#[tokio::test]
async fn a_log_of_rfc_6962_signatures_is_cosigned() {
    let key = LogKey::from_seed(&[7; 32]).unwrap();
    let verifier = CheckpointVerifier::new(ORIGIN, key.public_key_spki()).unwrap();
    let mut logs = LogKeys::default();
    logs.add(ORIGIN, TrustedKey::Ct(verifier));
    let witness = Witness::new(cosigners(), logs, Arc::new(memory())).unwrap();
    let mut request = Log::new(ORIGIN, 0).request(0, 13);
    let root = request.checkpoint.root;
    assert!(matches!(
        send(&witness, &request).await,
        Err(Refusal::Untrusted(_))
    ));
    let note = key.sign_checkpoint(ORIGIN, 13, &root, NOW * 1000).unwrap();
    request.note = SignedNote::parse(note.as_bytes()).unwrap();
    send(&witness, &request).await.unwrap();
    request.old = 13;
    // All lines of the key are verified, not only the first one.
    let mut invalid = request.note.signatures[0].clone();
    invalid.signature[20] ^= 1;
    for at in [1, 0] {
        let mut request = request.clone();
        request.note.signatures.insert(at, invalid.clone());
        assert!(matches!(
            send(&witness, &request).await,
            Err(Refusal::Untrusted(_))
        ));
    }
}

/// RFC 6962 and ML-DSA-44 signatures do not cover extension lines.
#[tokio::test]
async fn unsigned_extension_lines_are_refused() {
    let log = Log::new(ORIGIN, 0);
    let ml_dsa = Cosigner::ml_dsa_44(ORIGIN, &[1; 32]).unwrap();
    let mut logs = LogKeys::default();
    for key in [&log.key, &ml_dsa] {
        let key = TrustedKey::parse(ORIGIN, &key.verifier().to_string()).unwrap();
        logs.add(ORIGIN, key);
    }
    let witness = Witness::new(cosigners(), logs, Arc::new(memory())).unwrap();
    let mut request = log.request(0, 5);
    let signed = ml_dsa.cosign(&request.note.text, NOW).unwrap();
    request.note.signatures = vec![signed.clone()];
    send(&witness, &request).await.unwrap();

    request.old = 5;
    request.note.text += "an extension\n";
    let refusal = send(&witness, &request).await.unwrap_err();
    assert!(matches!(&refusal, Refusal::Untrusted(reason) if reason.contains("extension")));
    let ed25519 = log.key.cosign(&request.note.text, NOW).unwrap();
    request.note.signatures.push(ed25519);
    let lines = send(&witness, &request).await.unwrap();
    assert_eq!(cosigned(&request.note.text, &lines), NOW);
}

#[tokio::test]
async fn a_replay_returns_the_recorded_cosignatures() {
    let (log, lock, key) = (Log::new(ORIGIN, 0), memory(), record_key(ORIGIN));
    let old_key: Vec<_> = cosigners().into_iter().take(1).collect();
    let old = Witness::new(old_key, known(&[ORIGIN]), Arc::new(lock.clone())).unwrap();
    send(&old, &log.request(0, 5)).await.unwrap();
    // The record has no line of the new key yet.
    let witness = witness(&[ORIGIN], lock.clone());
    let mut request = log.request(5, 5);
    let first = send(&witness, &request).await.unwrap();
    assert_eq!(cosigned(&request.note.text, &first), NOW);
    let record = lock.load(&key).await.unwrap();

    assert_eq!(send(&witness, &request).await.unwrap(), first);
    assert_eq!(lock.load(&key).await.unwrap(), record);
    // Another signature of the log is recorded.
    request.note.signatures = vec![log.key.cosign(&request.note.text, NOW + 1).unwrap()];
    send(&witness, &request).await.unwrap();
    let record = SignedNote::parse(&lock.load(&key).await.unwrap().unwrap()).unwrap();
    assert_eq!(record.signatures[0], request.note.signatures[0]);
}

/// A witness with another key has its own view of the log in the same lock. Sunlight creates an
/// empty record for a new log.
#[tokio::test]
async fn records_of_other_witnesses_and_of_sunlight() {
    let (log, lock) = (Log::new(ORIGIN, 0), memory());
    let one = witness(&[ORIGIN], lock.clone());
    send(&one, &log.request(0, 5)).await.unwrap();
    let keys = vec![Cosigner::ed25519("witness.example/w2", &[9; 32]).unwrap()];
    let other = Witness::new(keys, known(&[ORIGIN]), Arc::new(lock.clone())).unwrap();
    assert_eq!(recorded(&other).await, None);
    lock.create(&other.record_key(ORIGIN), b"").await.unwrap();
    assert_eq!(recorded(&other).await, None);
    other
        .add_checkpoint(&log.request(0, 13), NOW)
        .await
        .unwrap();
    for (witness, size) in [(&one, 5), (&other, 13)] {
        let note = witness.checkpoint(ORIGIN).await.unwrap().unwrap();
        assert_eq!(Checkpoint::parse(&note.text).unwrap().size, size);
    }
}

#[test]
fn keys_and_origins_are_checked() {
    let new = |keys: Vec<Cosigner>, origins: &[&str]| {
        Witness::new(keys, known(origins), Arc::new(memory())).map(drop)
    };
    assert_eq!(new(vec![], &[ORIGIN]), Err(InvalidWitness::NoKey));
    let twice = ["w1", "w2"].map(|name| Cosigner::ed25519(name, &[2; 32]).unwrap());
    let same = InvalidWitness::SameKey(Box::new(twice[1].verifier().clone()));
    assert_eq!(new(twice.into(), &[ORIGIN]), Err(same));

    let origins = [255, 256].map(|length| "o".repeat(length));
    assert_eq!(new(cosigners(), &[&origins[0]]), Ok(()));
    let long = InvalidWitness::Origin(origins[1].clone());
    assert_eq!(new(cosigners(), &[&origins[1]]), Err(long));
    let ed25519 = cosigners().into_iter().take(1).collect();
    assert_eq!(new(ed25519, &[&origins[1]]), Ok(()));
    let name = InvalidWitness::Name("witness.example/w1".to_owned());
    assert_eq!(new(cosigners(), &["witness.example/w1"]), Err(name));
}

/// Sends a changed request from the recorded size 5 to 13, and returns the refusal. The record must
/// not have changed.
async fn refused(change: impl FnOnce(&mut AddCheckpoint)) -> Refusal {
    let log = Log::new(ORIGIN, 0);
    let witness = witness(&[ORIGIN], memory());
    send(&witness, &log.request(0, 5)).await.unwrap();
    let before = recorded(&witness).await;
    let mut request = log.request(5, 13);
    change(&mut request);
    let refusal = send(&witness, &request).await.unwrap_err();
    assert_eq!(recorded(&witness).await, before);
    refusal
}

/// Signs the changed checkpoint of a request.
fn resign(request: &mut AddCheckpoint) {
    let log = Log::new(&request.checkpoint.origin, 0);
    request.note = log.signed(&request.checkpoint);
}

#[tokio::test]
async fn unknown_logs_and_untrusted_signatures() {
    let unknown = refused(|request| *request = Log::new("other.example", 0).request(0, 13)).await;
    assert!(matches!(unknown, Refusal::UnknownLog(origin) if origin == "other.example"));
    let unsigned = |request: &mut AddCheckpoint| request.note.signatures[0].key_id = [0; 4];
    assert!(matches!(refused(unsigned).await, Refusal::Untrusted(_)));
    let invalid = |request: &mut AddCheckpoint| request.note.signatures[0].signature[20] ^= 1;
    assert!(matches!(refused(invalid).await, Refusal::Untrusted(_)));
    // An invalid line of a trusted key spoils the note beside a valid line.
    let second = |request: &mut AddCheckpoint| {
        let mut line = request.note.signatures[0].clone();
        line.signature[20] ^= 1;
        request.note.signatures.push(line);
    };
    assert!(matches!(refused(second).await, Refusal::Untrusted(_)));
}

#[tokio::test]
async fn stale_and_inconsistent_checkpoints() {
    let log = Log::new(ORIGIN, 0);
    for old in [0, 4, 6, 13] {
        let stale = refused(|request| *request = log.request(old, 13)).await;
        assert!(matches!(stale, Refusal::Stale(5)), "{stale}");
    }
    let other_root = refused(|request| {
        request.checkpoint = log.checkpoint(5);
        request.checkpoint.root = log.roots[6];
        request.proof.clear();
        resign(request);
    });
    assert!(matches!(other_root.await, Refusal::Contradiction));
    for change in [
        |request: &mut AddCheckpoint| request.proof.truncate(1),
        |request: &mut AddCheckpoint| request.proof.push(EMPTY_ROOT),
        |request: &mut AddCheckpoint| request.proof[0] = EMPTY_ROOT,
        |request: &mut AddCheckpoint| {
            request.checkpoint.root = EMPTY_ROOT;
            resign(request);
        },
        |request: &mut AddCheckpoint| {
            *request = Log::new(ORIGIN, 0).request(5, 5);
            request.proof.push(EMPTY_ROOT);
        },
    ] {
        assert!(matches!(refused(change).await, Refusal::Proof(_)));
    }
}

#[tokio::test]
async fn the_first_checkpoint() {
    let log = Log::new(ORIGIN, 0);
    let witness = witness(&[ORIGIN], memory());
    let mut with_proof = log.request(0, 5);
    with_proof.proof.push(EMPTY_ROOT);
    assert!(matches!(
        send(&witness, &with_proof).await,
        Err(Refusal::Proof(_))
    ));
    let mut wrong_empty = log.request(0, 0);
    wrong_empty.checkpoint.root = log.roots[1];
    resign(&mut wrong_empty);
    assert!(matches!(
        send(&witness, &wrong_empty).await,
        Err(Refusal::Contradiction)
    ));
    assert!(matches!(
        send(&witness, &log.request(3, 5)).await,
        Err(Refusal::Stale(0))
    ));
    send(&witness, &log.request(0, 0)).await.unwrap();
}

#[test]
fn malformed_bodies() {
    let good = Log::new(ORIGIN, 0).request(5, 13);
    let text = good.to_string();
    assert_eq!(AddCheckpoint::parse(text.as_bytes()), Ok(good.clone()));
    let proof = |hashes: usize| AddCheckpoint {
        proof: vec![EMPTY_ROOT; hashes],
        ..good.clone()
    };
    let full = proof(63);
    assert_eq!(AddCheckpoint::parse(full.to_string().as_bytes()), Ok(full));
    let lines = |lines: usize| {
        let mut request = good.clone();
        let line = |number: usize| NoteSignature {
            key_id: [number as u8; 4],
            ..good.note.signatures[0].clone()
        };
        request.note.signatures = (0..lines).map(line).collect();
        request
    };
    let full = lines(64);
    let mut repeated = full.clone();
    repeated.note.signatures.truncate(32);
    let expected = Ok(repeated.clone());
    repeated.note.signatures.extend_from_within(..);
    let parsed = AddCheckpoint::parse(repeated.to_string().as_bytes());
    assert_eq!(parsed, expected, "a repeated line is verified once");
    assert_eq!(AddCheckpoint::parse(full.to_string().as_bytes()), Ok(full));
    let larger = AddCheckpoint {
        old: 14,
        ..good.clone()
    };
    let shrunk = Malformed::Shrunk { old: 14, size: 13 };
    for (body, error) in [
        (String::new(), Malformed::Lines),
        (text.replace("\n\n", "\n"), Malformed::Lines),
        (text.replace("old 5", "old 05"), Malformed::Old),
        (text.replace("old 5", "old +5"), Malformed::Old),
        (text.replace("old 5", "old  5"), Malformed::Old),
        (text.replace("old 5", "5"), Malformed::Old),
        (text.replace("old 5\n", "old 5\r\n"), Malformed::Old),
        (text.replace("old 5\n", "old 5\nAAAA\n"), Malformed::Hash(2)),
        (proof(64).to_string(), Malformed::Proof(64)),
        (lines(65).to_string(), Malformed::Signatures(65)),
        (larger.to_string(), shrunk),
        (
            text.trim_end().to_owned(),
            Malformed::Note(NoteError::SignatureLine(1)),
        ),
        (
            text.replace("\n13\n", "\n013\n"),
            Malformed::Checkpoint(CheckpointError::Size),
        ),
    ] {
        assert_eq!(
            AddCheckpoint::parse(body.as_bytes()),
            Err(error),
            "{body:?}"
        );
    }
    assert_eq!(AddCheckpoint::parse(b"\xff\n\n"), Err(Malformed::Lines));
}

/// Times of the record never go back, and a time of zero is never signed.
#[tokio::test]
async fn times_of_cosignatures() {
    let log = Log::new(ORIGIN, 0);
    let witness = witness(&[ORIGIN], memory());
    let request = log.request(0, 5);
    let send = async |request: &AddCheckpoint, now| {
        let lines = witness.add_checkpoint(request, now).await;
        lines.map(|lines| cosigned(&request.note.text, &lines))
    };
    assert!(matches!(send(&request, 0).await, Err(Refusal::Signing(_))));
    assert_eq!(send(&request, NOW).await.unwrap(), NOW);
    let again = log.request(5, 5);
    // A replay within 10 s writes nothing.
    assert_eq!(send(&again, NOW + 9).await.unwrap(), NOW);
    assert_eq!(send(&again, NOW + 10).await.unwrap(), NOW + 10);
    for now in [NOW, NOW + 10 - 60] {
        assert_eq!(send(&again, now).await.unwrap(), NOW + 10);
    }
    let behind = send(&log.request(5, 13), NOW + 10 - 61).await;
    assert!(matches!(behind, Err(Refusal::Clock(61))));
}

#[tokio::test]
async fn without_a_record_there_is_no_cosignature() {
    let (log, lock) = (Log::new(ORIGIN, 0), memory());
    let witness = witness(&[ORIGIN], lock.clone());
    lock.fail(Some("the disk is full"));
    assert!(matches!(
        send(&witness, &log.request(0, 5)).await,
        Err(Refusal::Lock(_))
    ));
    lock.fail(None);
    send(&witness, &log.request(0, 5)).await.unwrap();
    // A record that is not a checkpoint of the log stops the witness for this log.
    let key = record_key(ORIGIN);
    let other = Log::new("other.example", 0);
    let mut damaged = recorded(&witness).await.unwrap().into_bytes();
    let end = damaged.len() - 10;
    damaged[end] ^= 1;
    for record in [
        b"damaged".to_vec(),
        other.request(0, 5).note.encode().into(),
        damaged,
    ] {
        lock.tamper(&key, Some(record));
        let refusal = send(&witness, &log.request(5, 13)).await.unwrap_err();
        assert!(matches!(refusal, Refusal::Record(..)), "{refusal}");
    }
}

/// Two witnesses with one lock and one name receive two branches of a log at the same time, from
/// the same recorded checkpoint: exactly one branch is cosigned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_cosign_a_fork() {
    let branches = [1, 2].map(|branch| Log::new(ORIGIN, branch));
    for pair in 0..100u64 {
        let racing = Arc::new(Racing::new(memory(), || ()));
        // Half of the pairs race for the first checkpoint, and half for an extension.
        let old = if pair % 2 == 0 { 0 } else { 7 };
        let witnesses = [(); 2].map(|()| witness_of(&[ORIGIN], racing.clone()));
        if old > 0 {
            send(&witnesses[0], &branches[0].request(0, old))
                .await
                .unwrap();
        }
        racing.reads.store(0, Ordering::SeqCst);
        let size = 11 + pair % 20;
        let requests = branches.each_ref().map(|log| log.request(old, size));
        let (one, two) = tokio::join!(
            send(&witnesses[0], &requests[0]),
            send(&witnesses[1], &requests[1]),
        );
        let won = usize::from(two.is_ok());
        let (winner, loser) = if won == 0 { (one, two) } else { (two, one) };
        assert_eq!(cosigned(&requests[won].note.text, &winner.unwrap()), NOW);
        assert!(matches!(loser, Err(Refusal::Stale(found)) if found == size));
        // The lost branch is evidence.
        let contradictions = witnesses[1 - won].contradictions(ORIGIN).await;
        assert_eq!(contradictions.unwrap(), 1);
    }
}

/// Other processes replace the record before each attempt.
#[tokio::test]
async fn a_request_that_loses_every_swap() {
    let (log, lock, key) = (Log::new(ORIGIN, 0), memory(), record_key(ORIGIN));
    let other = witness(&[ORIGIN], lock.clone());
    let mut records = Vec::new();
    for (old, size, now) in [(0, 5, NOW), (5, 5, NOW + 10), (5, 13, NOW + 10)] {
        let request = log.request(old, size);
        other.add_checkpoint(&request, now).await.unwrap();
        records.push(lock.load(&key).await.unwrap().unwrap());
    }
    for last in [1, 2] {
        lock.tamper(&key, Some(records[1].clone()));
        let attempts = Arc::new(AtomicUsize::new(0));
        let (tampered, records, counter) = (lock.clone(), records.clone(), attempts.clone());
        let racing = Racing::new(lock.clone(), move || {
            let record = match counter.fetch_add(1, Ordering::SeqCst) {
                7 => last,
                attempt => attempt % 2,
            };
            tampered.tamper(&key, Some(records[record].clone()));
        });
        let witness = witness(&[ORIGIN], racing);
        let refusal = send(&witness, &log.request(5, 13)).await.unwrap_err();
        match last {
            1 => assert!(matches!(refusal, Refusal::Busy), "{refusal}"),
            _ => assert!(matches!(refusal, Refusal::Stale(13)), "{refusal}"),
        }
        assert_eq!(attempts.load(Ordering::SeqCst), 8);
    }
}
