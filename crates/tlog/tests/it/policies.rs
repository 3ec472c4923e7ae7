//! Tests of policy files (C2SP tlog-policy).

use lucarne_tlog::policy::{PolicyFault, Untrusted};
use lucarne_tlog::*;

const ORIGIN: &str = "log.example/2026h2";

fn cosigner(seed: u8) -> Cosigner {
    Cosigner::ed25519(&format!("witness.example/{seed}"), &[seed; 32]).unwrap()
}

fn log() -> Cosigner {
    Cosigner::ml_dsa_44(ORIGIN, &[100; 32]).unwrap()
}

/// Returns the policy with the keys of [`cosigner`] in place of `{1}`, `{2}`, and of the log in
/// place of `{log}`.
fn with_keys(text: &str) -> Vec<u8> {
    let mut text = text.replace("{log}", &log().verifier().to_string());
    for seed in 1..=6 {
        let key = cosigner(seed).verifier().to_string();
        text = text.replace(&format!("{{{seed}}}"), &key);
    }
    text.into_bytes()
}

fn parse(text: &str) -> Result<Policy, (usize, PolicyFault)> {
    Policy::parse(&with_keys(text)).map_err(|error| (error.line, error.fault))
}

/// A checkpoint of the log, cosigned by these witnesses.
fn note(witnesses: &[u8]) -> SignedNote {
    let text = format!("{ORIGIN}\n0\n{EMPTY_ROOT}\n");
    let mut signatures = vec![log().cosign(&text, 1_790_000_000).unwrap()];
    let cosigned = witnesses
        .iter()
        .map(|seed| cosigner(*seed).cosign(&text, 1_790_000_001));
    signatures.extend(cosigned.map(Result::unwrap));
    SignedNote { text, signatures }
}

/// The example of the specification.
const EXAMPLE: &str = "# An example.
log {log} https://log.example/

witness X1 {1} https://witness.example/1
witness X2 {2}
  witness\tX3   {3}
group X-witnesses 2 X1 X2 X3

witness Y1 {4}
witness Y2 {5}
witness Y3 {6}
group Y-witnesses any Y1 Y2 Y3

\t# Both groups.
group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
";

#[test]
fn the_example_of_the_specification() {
    let policy = parse(EXAMPLE).unwrap();
    assert_eq!(
        policy.logs()[0].url.as_deref(),
        Some(&b"https://log.example/"[..])
    );
    assert_eq!(policy.witnesses().len(), 6);
    assert_eq!(policy.witnesses()[2].name, b"X3");
    for (witnesses, enough) in [
        (&[][..], false),
        (&[1, 2], false),
        (&[4, 5, 6], false),
        (&[1, 4, 5, 6], false),
        (&[1, 2, 4], true),
        (&[2, 3, 6], true),
        (&[1, 2, 3, 4, 5, 6], true),
    ] {
        let verified = policy.verify(&note(witnesses));
        let quorum = Untrusted::Quorum(witnesses.len());
        assert_eq!(verified.map(|_| ()), enough.then_some(()).ok_or(quorum));
    }
}

#[test]
fn quorums() {
    for (quorum, witnesses, enough) in [
        ("quorum none\n", &[][..], true),
        ("witness A {1}\nquorum A\n", &[1], true),
        ("witness A {1}\nquorum A\n", &[2], false),
        (
            "witness A {1}\nwitness B {2}\ngroup G 1 A\nquorum G\n",
            &[2],
            false,
        ),
        (
            "witness A {1}\ngroup all any A\ngroup H all all\nquorum H\n",
            &[1],
            true,
        ),
    ] {
        let policy = parse(&format!("log {{log}}\n{quorum}")).unwrap();
        let verified = policy.verify(&note(witnesses));
        assert_eq!(verified.is_ok(), enough, "{quorum}");
    }
}

#[test]
fn checkpoints_that_a_policy_does_not_accept() {
    let policy = parse("log {log}\nwitness A {1}\nwitness B {2}\ngroup G any A B\nquorum G\n");
    let policy = policy.unwrap();
    let refused = |change: &dyn Fn(&mut SignedNote)| {
        let mut note = note(&[1, 2]);
        change(&mut note);
        policy.verify(&note).unwrap_err()
    };
    assert!(matches!(
        refused(&|note| note.text = "no checkpoint\n".to_owned()),
        Untrusted::Text(_)
    ));
    let other = |note: &mut SignedNote| note.text = note.text.replace("2026h2", "2027h1");
    assert!(matches!(refused(&other), Untrusted::Log(_)));
    let unsigned = |note: &mut SignedNote| drop(note.signatures.remove(0));
    assert!(matches!(refused(&unsigned), Untrusted::Log(_)));
    // The quorum needs one of the two cosignatures, but neither may be invalid.
    for at in 0..3 {
        let damaged = |note: &mut SignedNote| note.signatures[at].signature[9] ^= 1;
        assert!(matches!(refused(&damaged), Untrusted::Signature { .. }));
    }
    let alone = |note: &mut SignedNote| note.signatures.truncate(1);
    assert_eq!(refused(&alone), Untrusted::Quorum(0));

    // A verifier that knows the log from elsewhere needs no log in the policy.
    let policy = parse("witness A {1}\nquorum A\n").unwrap();
    assert!(matches!(policy.verify(&note(&[1])), Err(Untrusted::Log(_))));
    assert_eq!(policy.verify_cosignatures(&note(&[1])), Ok(()));
}

#[test]
fn lines_that_are_not_allowed() {
    use PolicyFault::*;
    let wrong = |text: &str| parse(text).unwrap_err();
    for (text, line, fault) in [
        ("", 0, NoQuorum),
        ("\n# nothing\n", 2, NoQuorum),
        ("quorum none", 1, Unterminated),
        ("quorum none\nquorum none\n", 2, SecondQuorum),
        ("quorum\n", 1, Form("quorum NAME")),
        ("quorum A\nwitness A {1}\n", 1, Undefined("A".into())),
        ("quorum none\r\n", 1, ControlCharacter),
        ("quorum\u{b}none\n", 1, ControlCharacter),
        ("quorum none \u{7f}\n", 1, ControlCharacter),
        ("Quorum none\n", 1, Keyword),
        ("quorum none # comment\n", 1, Form("quorum NAME")),
        ("log\n", 1, Form("log KEY [URL]")),
        ("log {log} a b\n", 1, Form("log KEY [URL]")),
        ("log key\n", 1, Key(KeyError::Parts)),
        ("log {log}\nlog {log} https://b\n", 2, DuplicateKey(1)),
        ("witness A\n", 1, Form("witness NAME KEY [URL]")),
        ("witness A {1} b c\n", 1, Form("witness NAME KEY [URL]")),
        ("witness A {1}\n\nwitness B {1}\n", 3, DuplicateKey(1)),
        ("witness A {1}\nwitness A {2}\n", 2, Name),
        ("witness none {1}\n", 1, Name),
        ("group G any\n", 1, Form("group NAME THRESHOLD MEMBER...")),
        ("group G any none\n", 1, Undefined("none".into())),
        ("group G any G\n", 1, Undefined("G".into())),
        ("witness A {1}\ngroup A any A\n", 2, Name),
        ("witness A {1}\ngroup none any A\n", 2, Name),
        ("witness A {1}\ngroup G 0 A\n", 2, Threshold(1)),
        ("witness A {1}\ngroup G 2 A\n", 2, Threshold(1)),
        ("witness A {1}\ngroup G +1 A\n", 2, Threshold(1)),
        ("witness A {1}\ngroup G most A\n", 2, Threshold(1)),
        (
            "witness A {1}\ngroup G all A A\n",
            2,
            SecondMembership("A".into()),
        ),
        (
            "witness A {1}\ngroup G any A\ngroup H any A\n",
            3,
            SecondMembership("A".into()),
        ),
    ] {
        assert_eq!(wrong(text), (line, fault), "{text:?}");
    }
}

/// Two keys with the same public key are duplicates, even if name and ID differ.
#[test]
fn keys_are_compared_without_their_names() {
    let renamed = Cosigner::ed25519("another.example", &[1; 32]).unwrap();
    let text = format!("witness A {{1}}\nwitness B {}\n", renamed.verifier());
    let error = parse(&text).unwrap_err();
    assert_eq!(error, (2, PolicyFault::DuplicateKey(1)));
    // The same key may be the key of a log and of a witness.
    parse("log {1}\nwitness A {1}\nquorum A\n").unwrap();
}

#[test]
fn keys_of_notes_are_for_logs_only() {
    let key = VerifierKey::new(
        ORIGIN,
        KeyType::Ed25519,
        cosigner(1).verifier().public_key(),
    );
    let key = key.unwrap();
    parse(&format!("log {key}\nquorum none\n")).unwrap();
    let error = parse(&format!("witness A {key}\nquorum A\n")).unwrap_err();
    assert_eq!(error, (1, PolicyFault::NotCosigner));
}

#[test]
fn names_are_opaque_bytes() {
    let mut file = with_keys("witness ? {1} ?\nwitness K {2}\nquorum ?\n# ?\n");
    for byte in &mut file {
        if *byte == b'?' {
            *byte = 0xe9;
        }
    }
    let policy = Policy::parse(&file).unwrap();
    assert_eq!(policy.witnesses()[0].name, [0xe9]);
    assert_eq!(policy.witnesses()[0].url.as_deref(), Some(&[0xe9][..]));
    assert!(policy.quorum_is_met(|witness| witness.name == [0xe9]));
    // The Kelvin sign is not a K.
    let kelvin = with_keys("witness K {2}\nquorum \u{212a}\n");
    let error = Policy::parse(&kelvin).unwrap_err();
    assert_eq!(
        error.to_string(),
        r"line 2 of the policy: `\xe2\x84\xaa` is not defined in a line above"
    );
}

/// The specification recommends room for 32 logs, witnesses and groups.
#[test]
fn large_policies() {
    let key = |name: &str, seed: u8| Cosigner::ed25519(name, &[seed; 32]).unwrap();
    let keys = |name, first: u8| {
        let seeds = first..first + 40;
        seeds.map(move |seed| key(name, seed).verifier().to_string())
    };
    let mut text: String = keys("log.example", 0)
        .map(|key| format!("log {key}\n"))
        .collect();
    let mut previous = String::new();
    for (number, key) in keys("witness.example", 100).enumerate() {
        text += &format!("witness W{number} {key}\n");
        text += &format!("group G{number} all W{number}{previous}\n");
        previous = format!(" G{number}");
    }
    text += "quorum G39\n";
    let policy = Policy::parse(text.as_bytes()).unwrap();
    assert_eq!((policy.logs().len(), policy.witnesses().len()), (40, 40));
    assert!(policy.quorum_is_met(|_| true));
    assert!(!policy.quorum_is_met(|witness| witness.name != b"W0"));
}

/// The names and keys of the second policy must be others.
#[test]
fn the_quorum_of_two_policies_needs_both() {
    let [a, b, c] = [1, 2, 3].map(|seed| cosigner(seed).verifier().to_string());
    let parse = |text: String| Policy::parse(text.as_bytes()).unwrap();
    let witnesses = parse(format!(
        "witness A {a}\nwitness B {b}\ngroup G any A B\nquorum G\n"
    ));
    let mirrors = parse(format!("witness C {c}\ngroup G all C\nquorum G\n"));
    let both = witnesses.clone().and(mirrors.clone()).unwrap();
    let met = |names: &[&[u8]]| both.quorum_is_met(|it| names.contains(&&*it.name));
    assert!(met(&[b"A", b"C"]) && met(&[b"B", b"C"]));
    assert!(!met(&[b"A", b"B"]) && !met(&[b"C"]));
    let none = parse(format!("witness C {c}\nquorum none\n"));
    let one = witnesses.clone().and(none).unwrap();
    assert!(one.quorum_is_met(|it| it.name == b"A") && !one.quorum_is_met(|_| false));

    let same_key = parse(format!("witness D {a}\nquorum D\n"));
    assert_eq!(witnesses.clone().and(same_key).unwrap_err(), b"D");
    let same_name = parse(format!("witness A {c}\nquorum A\n"));
    assert_eq!(witnesses.and(same_name).unwrap_err(), b"A");
}
