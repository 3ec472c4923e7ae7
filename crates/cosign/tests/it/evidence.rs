//! Checkpoints that contradict the recorded one.

use lucarne_cosign::evidence::{Evidence, MOST};
use lucarne_cosign::{Refusal, request::AddCheckpoint};

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
    for witness in [&one, &two] {
        assert_eq!(witness.contradictions(ORIGIN).await.unwrap(), 3);
    }
    // A stale request is evidence too.
    let mut stale = contradiction(3);
    stale.old = 4;
    assert!(matches!(send(&one, &stale).await, Err(Refusal::Stale(5))));

    let stored = Evidence::get(&lock, ORIGIN, 3).await.unwrap().unwrap();
    assert_eq!(stored.submitted, stale.note.encode());
    let recorded = one.checkpoint(&origin_hash(ORIGIN)).await.unwrap().unwrap();
    assert_eq!(stored.recorded.as_bytes(), recorded);
    assert_eq!(Evidence::get(&lock, ORIGIN, 4).await.unwrap(), None);

    for number in 4..=MOST as u16 + 3 {
        let sent = send(&two, &contradiction(number)).await;
        assert!(matches!(sent, Err(Refusal::Contradiction)));
    }
    assert_eq!(one.contradictions(ORIGIN).await.unwrap(), MOST);
    assert_eq!(Evidence::get(&lock, ORIGIN, MOST).await.unwrap(), None);
}
