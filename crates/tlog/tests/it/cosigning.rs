//! Tests of verifier keys and cosignatures (C2SP signed-note, tlog-cosignature).

use lucarne_tlog::*;

const ORIGIN: &str = "example.com/behind-the-sofa";
const TIME: u64 = 1_679_315_147;

/// Keys and signatures by other implementations: Ed25519 by OpenSSL 3, and ML-DSA-44, in its
/// deterministic form, by the crate `ml-dsa` 0.1.2 of RustCrypto. The seeds are 32 bytes of 7.
const COSIGNERS: &str = include_str!("data/cosigners.txt");
const COSIGNED: &str = include_str!("data/cosigned.txt");
const SUBTREE: &str = include_str!("data/subtree.txt");

fn cosigners() -> [Cosigner; 2] {
    let name = "witness.example/w1";
    [Cosigner::ed25519, Cosigner::ml_dsa_44].map(|new| new(name, &[7; 32]).unwrap())
}

/// The hash of the cosigned subtree of the vector.
fn subtree_hash() -> Hash {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"subtree");
    Hash::from_slice(digest.as_ref()).unwrap()
}

#[test]
fn keys_and_cosignatures_of_other_implementations() {
    let note = SignedNote::parse(COSIGNED.as_bytes()).unwrap();
    let keys: Vec<VerifierKey> = COSIGNERS.lines().map(|key| key.parse().unwrap()).collect();
    for (key, cosigner) in keys.iter().zip(cosigners()) {
        assert_eq!(key, cosigner.verifier());
        assert_eq!(key.verify(&note), Ok(Some(TIME)));
    }
    // Ed25519 signatures have one form.
    let [ed25519, ml_dsa] = cosigners();
    assert_eq!(
        ed25519.cosign(&note.text, TIME).unwrap(),
        note.signatures[0]
    );
    assert_eq!(
        keys[0].to_string() + "\n" + &keys[1].to_string() + "\n",
        COSIGNERS
    );

    let line = &note::parse_signatures(SUBTREE).unwrap()[0];
    let subtree = Subtree::new(8, 13).unwrap();
    let verified = ml_dsa
        .verifier()
        .verify_subtree(ORIGIN, subtree, &subtree_hash(), line);
    assert_eq!(verified, Ok(()));
}

/// The bytes of the structure, written by hand: every integer is big-endian.
#[test]
fn the_cosigned_message_has_a_fixed_layout() {
    let [_, cosigner] = cosigners();
    let text = format!("{ORIGIN}\n5\n{EMPTY_ROOT}\nan extension\n");
    let line = cosigner.cosign(&text, 0x0102).unwrap();
    let message = [
        b"subtree/v1\n\0".as_slice(),
        b"\x12witness.example/w1",
        &[0, 0, 0, 0, 0, 0, 1, 2],
        b"\x1bexample.com/behind-the-sofa",
        &[0; 8],
        &[0, 0, 0, 0, 0, 0, 0, 5],
        &EMPTY_ROOT.0,
    ]
    .concat();
    let public_key = cosigner.verifier().public_key();
    let key =
        aws_lc_rs::signature::UnparsedPublicKey::new(&aws_lc_rs::signature::ML_DSA_44, public_key);
    key.verify(&message, &line.signature[8..]).unwrap();
    assert_eq!(line.signature[..8], [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!((line.signature.len(), public_key.len()), (8 + 2420, 1312));
}

#[test]
fn extension_lines_are_signed_by_ed25519_only() {
    for (cosigner, signed) in cosigners().iter().zip([true, false]) {
        let text = format!("{ORIGIN}\n5\n{EMPTY_ROOT}\nan extension\n");
        let signatures = vec![cosigner.cosign(&text, TIME).unwrap()];
        let mut note = SignedNote { text, signatures };
        assert_eq!(cosigner.verifier().verify(&note), Ok(Some(TIME)));
        note.text = note.text.replace("an extension", "another");
        assert_eq!(cosigner.verifier().verify(&note).is_err(), signed);
    }
}

#[test]
fn changed_checkpoints_and_signatures_are_refused() {
    for cosigner in cosigners() {
        let text = format!("{ORIGIN}\n5\n{EMPTY_ROOT}\n");
        let good = SignedNote {
            signatures: vec![cosigner.cosign(&text, TIME).unwrap()],
            text,
        };
        let refused = |change: &dyn Fn(&mut SignedNote), error: InvalidSignature| {
            let mut note = good.clone();
            change(&mut note);
            assert_eq!(cosigner.verifier().verify(&note), Err(error));
        };
        let length = good.signatures[0].signature.len();
        for (from, to) in [("sofa", "soda"), ("\n5\n", "\n6\n"), ("47DE", "47DF")] {
            let change = |note: &mut SignedNote| note.text = note.text.replace(from, to);
            refused(&change, InvalidSignature::Signature);
        }
        for at in [7, 8, length - 1] {
            let change = |note: &mut SignedNote| note.signatures[0].signature[at] ^= 1;
            refused(&change, InvalidSignature::Signature);
        }
        refused(
            &|note| note.signatures[0].signature[0] = 0x80,
            InvalidSignature::Timestamp((1 << 63) + TIME),
        );
        refused(
            &|note| note.signatures[0].signature.push(0),
            InvalidSignature::Length(length + 1 - 8),
        );
        refused(
            &|note| note.signatures[0].signature.truncate(7),
            InvalidSignature::Length(7),
        );
        refused(
            &|note| note.text = "any text\n".to_owned(),
            InvalidSignature::Text,
        );
        // One invalid line spoils a note with a valid line, in any order.
        refused(
            &|note| {
                let mut second = note.signatures[0].clone();
                second.signature[9] ^= 1;
                note.signatures.push(second);
            },
            InvalidSignature::Signature,
        );
    }
}

#[test]
fn lines_of_other_keys_are_ignored() {
    let [ed25519, ml_dsa] = cosigners();
    let text = format!("{ORIGIN}\n5\n{EMPTY_ROOT}\n");
    // The same name with another ID, and the same ID with another name.
    let other_id = ml_dsa.cosign(&text, TIME).unwrap();
    let mut other_name = ed25519.cosign(&text, TIME).unwrap();
    other_name.name = "witness.example/w2".to_owned();
    other_name.signature[9] ^= 1;
    let signatures = vec![other_id, other_name];
    let mut note = SignedNote { text, signatures };
    assert_eq!(ed25519.verifier().verify(&note), Ok(None));
    // The latest of several valid lines counts.
    for time in [TIME, TIME + 5, TIME + 1] {
        note.signatures
            .push(ed25519.cosign(&note.text, time).unwrap());
    }
    assert_eq!(ed25519.verifier().verify(&note), Ok(Some(TIME + 5)));
}

#[test]
fn checkpoints_need_a_time() {
    for cosigner in cosigners() {
        let text = format!("{ORIGIN}\n0\n{EMPTY_ROOT}\n");
        for time in [0, 1 << 63, u64::MAX] {
            let signed = cosigner.cosign(&text, time);
            assert_eq!(signed, Err(CosignError::Timestamp(time)));
        }
        for time in [1, (1 << 63) - 1] {
            let signatures = vec![cosigner.cosign(&text, time).unwrap()];
            let note = SignedNote {
                text: text.clone(),
                signatures,
            };
            assert_eq!(cosigner.verifier().verify(&note), Ok(Some(time)));
        }
    }
}

#[test]
fn subtrees_have_no_time() {
    let [ed25519, ml_dsa] = cosigners();
    let subtree = Subtree::new(4, 8).unwrap();
    let hash = subtree_hash();
    let key = ml_dsa.verifier();
    let good = ml_dsa.cosign_subtree(ORIGIN, subtree, &hash).unwrap();
    assert_eq!(good.signature[..8], [0; 8]);
    let verify = |line: &NoteSignature| key.verify_subtree(ORIGIN, subtree, &hash, line);
    assert_eq!(verify(&good), Ok(()));

    // The form of a proposed revision has no timestamp.
    let mut bare = good.clone();
    bare.signature.drain(..8);
    assert_eq!(verify(&bare), Ok(()));

    let mut timed = good.clone();
    timed.signature[7] = 1;
    assert_eq!(verify(&timed), Err(InvalidSignature::Timestamp(1)));
    // A cosignature of a whole tree with a time is not one of a subtree.
    let whole = Subtree::first(8);
    let text = format!("{ORIGIN}\n8\n{hash}\n");
    let timed = ml_dsa.cosign(&text, TIME).unwrap();
    assert_eq!(
        key.verify_subtree(ORIGIN, whole, &hash, &timed),
        Err(InvalidSignature::Timestamp(TIME))
    );
    // A subtree from the first leaf is also a checkpoint, without a time.
    let untimed = ml_dsa.cosign_subtree(ORIGIN, whole, &hash).unwrap();
    let signatures = vec![untimed];
    assert_eq!(key.verify(&SignedNote { text, signatures }), Ok(Some(0)));

    let other = Subtree::new(8, 12).unwrap();
    for (origin, subtree, hash) in [
        ("example.com", subtree, hash),
        (ORIGIN, other, hash),
        (ORIGIN, subtree, EMPTY_ROOT),
    ] {
        let verified = key.verify_subtree(origin, subtree, &hash, &good);
        assert_eq!(verified, Err(InvalidSignature::Signature));
    }
    assert_eq!(
        ed25519.cosign_subtree(ORIGIN, subtree, &hash),
        Err(CosignError::Subtree)
    );
    let verified = ed25519
        .verifier()
        .verify_subtree(ORIGIN, subtree, &hash, &good);
    assert_eq!(verified, Err(InvalidSignature::OtherKey));
}

#[test]
fn names_fit_into_the_message() {
    let long = "a".repeat(256);
    assert!(matches!(
        Cosigner::ml_dsa_44(&long, &[7; 32]),
        Err(KeyError::LongName)
    ));
    assert!(Cosigner::ed25519(&long, &[7; 32]).is_ok());
    let cosigner = Cosigner::ml_dsa_44(&long[1..], &[7; 32]).unwrap();
    for (origin, expected) in [(&long[1..], true), (&long, false)] {
        let text = format!("{origin}\n0\n{EMPTY_ROOT}\n");
        let signed = cosigner.cosign(&text, TIME);
        assert_eq!(signed.is_ok(), expected);
        let signatures = signed.into_iter().collect();
        let note = SignedNote { text, signatures };
        let verified = cosigner.verifier().verify(&note);
        assert_eq!(verified, Ok(expected.then_some(TIME)));
    }
}

#[test]
fn malformed_verifier_keys_are_refused() {
    let good = COSIGNERS.lines().next().unwrap();
    let (name, rest) = good.split_once('+').unwrap();
    let (id, key) = rest.split_once('+').unwrap();
    let parse = |text: &str| text.parse::<VerifierKey>().unwrap_err();
    let cosigner = cosigners();
    let right_id = KeyError::Id(cosigner[0].verifier().id());
    for (text, error) in [
        (String::new(), KeyError::Parts),
        (format!("{name}+{id}"), KeyError::Parts),
        (format!("+{id}+{key}"), KeyError::Name),
        (format!("a b+{id}+{key}"), KeyError::Name),
        (format!("{name}+{}+{key}", id.to_uppercase()), right_id),
        (format!("{name}+0{id}+{key}"), right_id),
        (format!("{name}+00000000+{key}"), right_id),
        (format!("{good}="), KeyError::Base64),
        (format!("{name}+{id}+{key}\n"), KeyError::Base64),
        (format!("{name}+{id}+"), KeyError::Base64),
        (format!("{name}+{id}+BQ=="), KeyError::Type(5)),
        (format!("{name}+{id}+BA=="), KeyError::Key),
        (format!("{name}+{id}+BAAA"), KeyError::Key),
    ] {
        assert_eq!(parse(&text), error, "{text:?}");
    }
}
