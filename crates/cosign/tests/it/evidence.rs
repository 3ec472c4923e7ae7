//! Checkpoints that contradict the recorded one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lucarne_cosign::evidence::{Evidence, MOST};
use lucarne_cosign::{Malformed, Refusal, request::AddCheckpoint};

use super::*;

/// A signed checkpoint of 5 leaves with another root.
fn contradiction(number: u16) -> AddCheckpoint {
    let log = Log::new(ORIGIN, 0);
    let mut request = log.request(5, 5);
    request.checkpoint.root = leaf_hash(&number.to_be_bytes());
    request.note = log.signed(&request.checkpoint);
    request
}

#[tokio::test]
async fn contradictions_are_stored_once_and_bounded() {
    let lock = memory();
    let [one, two] = [(); 2].map(|()| witness(&[ORIGIN], lock.clone()));
    send(&one, &Log::new(ORIGIN, 0).request(0, 5))
        .await
        .unwrap();
    assert_eq!(one.contradictions(ORIGIN).await.unwrap(), 0);

    // Both processes store; the number is the same for both.
    for (witness, number) in [(&one, 0), (&two, 0), (&two, 1), (&one, 1), (&one, 2)] {
        let sent = send(witness, &contradiction(number)).await;
        assert!(matches!(sent, Err(Refusal::Contradiction)));
    }
    // The second process knows the contradictions that were stored before its last one.
    for (witness, known) in [(&one, 3), (&two, 2), (&witness(&[ORIGIN], lock.clone()), 3)] {
        assert_eq!(witness.contradictions(ORIGIN).await.unwrap(), known);
    }
    // A stale request is evidence too.
    let mut stale = contradiction(3);
    stale.old = 4;
    assert!(matches!(send(&one, &stale).await, Err(Refusal::Stale(5))));

    let stored = Evidence::get(&lock, ORIGIN, 3).await.unwrap().unwrap();
    assert_eq!(stored.submitted, stale.note.encode());
    assert_eq!(Some(stored.recorded), recorded(&one).await);
    assert_eq!(Evidence::get(&lock, ORIGIN, 4).await.unwrap(), None);

    for number in 4..=MOST as u16 + 3 {
        let sent = send(&two, &contradiction(number)).await;
        assert!(matches!(sent, Err(Refusal::Contradiction)));
    }
    assert_eq!(two.contradictions(ORIGIN).await.unwrap(), MOST);
    assert_eq!(Evidence::get(&lock, ORIGIN, MOST).await.unwrap(), None);
}

/// The number is found with few reads, and then remembered. No origin waits for the reads of
/// another one.
#[tokio::test]
async fn contradictions_are_counted_fast() {
    let lock = memory();
    let other = "other.example";
    let key = |origin: &str, number| {
        lucarne_ct::sha256(&[format!("{origin}\nevidence {number}\n").as_bytes()])
    };
    for stored in 0..=MOST {
        let racing = Arc::new(Racing::new(lock.clone(), || ()));
        let witness = witness_of(&[ORIGIN, other], racing.clone());
        racing.reads.store(0, Ordering::SeqCst);
        let counts = async {
            tokio::join!(
                witness.contradictions(ORIGIN),
                witness.contradictions(other)
            )
        };
        let counts = tokio::time::timeout(Duration::from_secs(60), counts).await;
        let (count, none) = counts.expect("an origin waits for another one");
        assert_eq!((count.unwrap(), none.unwrap()), (stored, 0));
        let reads = racing.reads.load(Ordering::SeqCst);
        assert!(reads <= 21, "{reads} reads of {stored}");
        assert_eq!(witness.contradictions(ORIGIN).await.unwrap(), stored);
        assert_eq!(racing.reads.load(Ordering::SeqCst), reads);
        lock.create(&key(ORIGIN, stored), b"stored").await.unwrap();
    }
}

/// No line of a note can be mistaken for the end of the note.
#[tokio::test]
async fn extension_lines_do_not_separate() {
    let (log, lock) = (Log::new(ORIGIN, 0), memory());
    let witness = witness(&[ORIGIN], lock.clone());
    let mut requests = [log.request(0, 5), contradiction(0)];
    for request in &mut requests {
        request.note.text += "\u{2260}\n\u{241e}\n";
        request.note.signatures = vec![log.key.cosign(&request.note.text, NOW).unwrap()];
    }
    send(&witness, &requests[0]).await.unwrap();
    let sent = send(&witness, &requests[1]).await;
    assert!(matches!(sent, Err(Refusal::Contradiction)));
    let stored = Evidence::get(&lock, ORIGIN, 0).await.unwrap().unwrap();
    assert_eq!(stored.submitted, requests[1].note.encode());
    assert_eq!(Some(stored.recorded), recorded(&witness).await);
}

/// A log cannot fill the lock: one line of each key is stored, and long texts are refused.
#[tokio::test]
async fn records_are_small() {
    let log = Log::new(ORIGIN, 0);
    let witness = witness(&[ORIGIN], memory());
    let mut request = log.request(0, 5);
    let text = request.note.text.clone();
    let lines = (NOW..NOW + 64).map(|time| log.key.cosign(&text, time).unwrap());
    request.note.signatures = lines.collect();
    send(&witness, &request).await.unwrap();
    let stored = recorded(&witness).await.unwrap();
    let stored = SignedNote::parse(stored.as_bytes()).unwrap();
    assert_eq!(stored.signatures.len(), 1 + cosigners().len());

    request.old = 5;
    for length in [4096, 4097] {
        let extension = "x".repeat(length - text.len() - 1);
        request.note.text = format!("{text}{extension}\n");
        request.note.signatures = vec![log.key.cosign(&request.note.text, NOW).unwrap()];
        match send(&witness, &request).await {
            Ok(_) => assert_eq!(length, 4096),
            Err(Refusal::Malformed(Malformed::Text(4097))) => assert_eq!(length, 4097),
            Err(refusal) => panic!("{refusal}"),
        }
    }
}
