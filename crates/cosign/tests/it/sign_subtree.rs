//! The rules of `sign-subtree` (C2SP tlog-witness).

use lucarne_cosign::{Malformed, Refusal, SignSubtree};

use super::*;

/// Returns a request for a subtree of the tree of 14 leaves, with a checkpoint that the witness has
/// cosigned.
async fn request(witness: &Witness, subtree: Subtree) -> SignSubtree {
    let log = Log::new(ORIGIN, 0);
    let signatures = send(witness, &log.request(0, 14)).await.unwrap();
    log.subtree_request(subtree, 14, signatures)
}

fn sign(witness: &Witness, request: &SignSubtree) -> Result<Vec<NoteSignature>, Refusal> {
    witness.sign_subtree(&SignSubtree::parse(request.to_string().as_bytes())?)
}

#[tokio::test]
async fn subtrees_are_cosigned_without_a_time() {
    for (start, end) in [(8, 13), (4, 8), (0, 14), (13, 14), (12, 14), (5, 5)] {
        let witness = witness(&[ORIGIN], memory());
        let subtree = Subtree::new(start, end).unwrap();
        let request = request(&witness, subtree).await;
        let lines = sign(&witness, &request).unwrap();
        // Ed25519 cannot cosign subtrees.
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].signature[..8], [0; 8]);
        let key = cosigners()[1].verifier().clone();
        let verified = key.verify_subtree(ORIGIN, subtree, &request.hash, &lines[0]);
        assert_eq!(verified, Ok(()));
    }
}

#[tokio::test]
async fn refused_subtrees() {
    let witness = witness(&[ORIGIN], memory());
    let good = request(&witness, Subtree::new(8, 13).unwrap()).await;
    let refused = |change: &dyn Fn(&mut SignSubtree)| {
        let mut request = good.clone();
        change(&mut request);
        sign(&witness, &request).unwrap_err()
    };
    let log = Log::new("other.example", 0);
    assert!(matches!(
        refused(&|request| request.note = log.request(0, 14).note),
        Refusal::UnknownLog(_)
    ));
    // The log's own signature is not a cosignature.
    let log = Log::new(ORIGIN, 0);
    assert!(matches!(
        refused(&|request| request.note = log.request(0, 14).note),
        Refusal::Untrusted(_)
    ));
    for line in 0..2 {
        let damaged = |request: &mut SignSubtree| request.note.signatures[line].signature[20] ^= 1;
        assert!(matches!(refused(&damaged), Refusal::Untrusted(_)));
    }
    let changes: [&dyn Fn(&mut SignSubtree); 5] = [
        &|request| request.hash = EMPTY_ROOT,
        &|request| request.proof[0] = EMPTY_ROOT,
        &|request| request.proof.push(EMPTY_ROOT),
        &|request| request.proof.truncate(1),
        &|request| request.subtree = Subtree::new(8, 12).unwrap(),
    ];
    for change in changes {
        assert!(matches!(refused(change), Refusal::Proof(_)));
    }
    // One cosignature on the checkpoint is sufficient.
    let mut once = good.clone();
    once.note.signatures.truncate(1);
    sign(&witness, &once).unwrap();

    let old_keys: Vec<_> = cosigners().into_iter().take(1).collect();
    let old = Witness::new(old_keys, known(&[ORIGIN]), Arc::new(memory())).unwrap();
    assert!(matches!(sign(&old, &good), Err(Refusal::NoSubtrees)));
}

#[tokio::test]
async fn malformed_bodies() {
    let witness = witness(&[ORIGIN], memory());
    let good = request(&witness, Subtree::new(8, 13).unwrap()).await;
    let text = good.to_string();
    assert_eq!(SignSubtree::parse(text.as_bytes()), Ok(good.clone()));
    let long = SignSubtree {
        proof: vec![EMPTY_ROOT; 64],
        ..good.clone()
    };
    let subtree = Subtree::new(8, 15).unwrap();
    let outside = SignSubtree { subtree, ..good };
    let without_hash = format!("subtree 8 13\n\n{}", outside.note);
    for (body, error) in [
        (
            text.replace("subtree 8 13", "subtree 7 9"),
            Malformed::Range,
        ),
        (
            text.replace("subtree 8 13", "subtree 13 8"),
            Malformed::Range,
        ),
        (text.replace("subtree 8 13", "subtree 8"), Malformed::Range),
        (
            text.replace("subtree 8 13", "subtree 08 13"),
            Malformed::Range,
        ),
        (
            text.replace("subtree 8 13", "subtree 8 13 "),
            Malformed::Range,
        ),
        (text.replace("subtree 8 13", "old 8"), Malformed::Range),
        (
            text.replace("subtree 8 13\n", "subtree 8 13\nAAAA\n"),
            Malformed::Hash(2),
        ),
        (without_hash, Malformed::Hash(2)),
        (long.to_string(), Malformed::Proof(64)),
        (
            outside.to_string(),
            Malformed::Outside { subtree, size: 14 },
        ),
        (text.replace("\n\n", "\n"), Malformed::Lines),
    ] {
        assert_eq!(SignSubtree::parse(body.as_bytes()), Err(error), "{body:?}");
    }
}
