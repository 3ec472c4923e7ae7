//! Tests of proof files (C2SP tlog-proof).

use lucarne_tlog::policy::Untrusted;
use lucarne_tlog::tlog_proof::NotLogged;
use lucarne_tlog::*;

use crate::support::*;

const ORIGIN: &str = "example.com/fancylog";

/// A proof for leaf 5 of 13, and the policy that accepts the proof.
fn proof() -> (TlogProof, Hash, Policy) {
    let tree = Distinct::new(13);
    let mut tiles = |tile: Tile| Ok::<_, ()>(tree.tile(tile));
    let log = Cosigner::ml_dsa_44(ORIGIN, &[1; 32]).unwrap();
    let witness = Cosigner::ed25519("witness1.example", &[2; 32]).unwrap();
    let root = tree.root(0..13);
    let text = format!("{ORIGIN}\n13\n{root}\n");
    let signatures = [&log, &witness].map(|signer| signer.cosign(&text, 1_790_000_000).unwrap());
    let policy = format!(
        "log {}\nwitness W {}\nquorum W\n",
        log.verifier(),
        witness.verifier()
    );
    let proof = TlogProof {
        extra: Some(b"context".to_vec()),
        index: 5,
        proof: inclusion_proof(5, 13, &mut tiles).unwrap(),
        checkpoint: SignedNote {
            text,
            signatures: signatures.to_vec(),
        },
    };
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    (proof, tree.leaves()[5], policy)
}

#[test]
fn a_proof_is_written_read_and_verified() {
    let (proof, leaf, policy) = proof();
    let file = proof.to_string();
    assert!(file.starts_with("c2sp.org/tlog-proof@v1\nextra Y29udGV4dA==\nindex 5\n"));
    let read = TlogProof::parse(file.as_bytes()).unwrap();
    assert_eq!(read, proof);
    assert_eq!(read.verify(&leaf, &policy).unwrap().size, 13);

    for extra in [None, Some(Vec::new())] {
        let proof = TlogProof {
            extra,
            ..proof.clone()
        };
        let file = proof.to_string();
        assert_eq!(TlogProof::parse(file.as_bytes()), Ok(proof));
    }
}

#[test]
fn proofs_that_do_not_verify() {
    let (good, leaf, policy) = proof();
    let other = leaf_hash(b"other");
    assert_eq!(
        good.verify(&other, &policy),
        Err(NotLogged::Proof(ProofError::Root))
    );
    for proof in damaged(&good.proof) {
        let wrong = TlogProof {
            proof,
            ..good.clone()
        };
        assert!(matches!(
            wrong.verify(&leaf, &policy),
            Err(NotLogged::Proof(_))
        ));
    }
    for index in [0, 4, 13, u64::MAX] {
        let wrong = TlogProof {
            index,
            ..good.clone()
        };
        assert!(matches!(
            wrong.verify(&leaf, &policy),
            Err(NotLogged::Proof(_))
        ));
    }
    let mut uncosigned = good.clone();
    uncosigned.checkpoint.signatures.truncate(1);
    assert_eq!(
        uncosigned.verify(&leaf, &policy),
        Err(NotLogged::Checkpoint(Untrusted::Quorum(0)))
    );
    let mut larger = good;
    larger.checkpoint.text = larger.checkpoint.text.replace("\n13\n", "\n14\n");
    assert!(matches!(
        larger.verify(&leaf, &policy),
        Err(NotLogged::Checkpoint(_))
    ));
}

#[test]
fn malformed_files_are_refused() {
    use TlogProofError::*;
    let good = proof().0.to_string();
    for (from, to, error) in [
        ("c2sp.org/tlog-proof@v1\n", "", Header),
        ("tlog-proof@v1\n", "tlog-proof@v2\n", Header),
        ("tlog-proof@v1\n", "tlog-proof@v1 \n", Header),
        ("Y29udGV4dA==", "Y29udGV4dA", Extra),
        ("Y29udGV4dA==", "Y29udGV4dA== ", Extra),
        ("index 5", "index 05", Index),
        ("index 5", "index -5", Index),
        ("index 5", "index", Index),
        ("index 5\n", "", Index),
        ("index 5", "extra \nindex 5", Index),
        ("index 5\n", "index 5\nAAAA\n", Hash(1)),
        ("\n\n", "\n", Hash(5)),
        ("\n\n", "\n\n\n", Checkpoint(CheckpointError::Origin)),
        ("\n— ", "\n- ", Note(NoteError::SignatureLine(1))),
    ] {
        let wrong = good.replacen(from, to, 1);
        assert_ne!(wrong, good);
        assert_eq!(
            TlogProof::parse(wrong.as_bytes()),
            Err(error),
            "{from:?} {to:?}"
        );
    }
    let short = b"c2sp.org/tlog-proof@v1\nindex 0\n";
    assert_eq!(TlogProof::parse(short), Err(NoCheckpoint));
    assert_eq!(TlogProof::parse(b"\xff"), Err(Note(NoteError::Encoding)));
}
