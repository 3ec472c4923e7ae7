//! Log lists, and the logs of earlier lists in the lock.

use lucarne_cosign::{InvalidWitness, ListedLog, LogList, MemoryError, Skipped};
use lucarne_ct::LogKey;

use super::*;

const VKEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

fn ml_dsa(origin: &str) -> String {
    let key = Cosigner::ml_dsa_44(origin, &[4; 32]).unwrap();
    key.verifier().to_string()
}

fn parse(origin: &str, key: &str) -> ListedLog {
    let key = TrustedKey::parse(origin, key).unwrap();
    (origin.to_owned(), Arc::new(key))
}

fn text(list: &LogList) -> Vec<(String, String)> {
    let logs = list.logs.iter();
    logs.map(|(origin, key)| (origin.clone(), key.to_string()))
        .collect()
}

#[test]
fn lists_of_witness_networks() {
    let vkey = &Log::new("x", 0).key.verifier().to_string();
    let ml_dsa = ml_dsa("log.example/ml-dsa");
    let list = format!(
        "# Logs\n\nlogs/v0\n\nvkey {ml_dsa}\nqpd 86400\ncontact me@example.com\n\n  vkey {vkey}\n\
         vkey {ml_dsa}\norigin log.example/other\n\nvkey {ml_dsa}\nvkey nonsense\n"
    );
    let list = LogList::parse(list.as_bytes()).unwrap();
    // Logs may sign with a key of a cosigner (type 0x04).
    let expected = [
        ("log.example/ml-dsa", &ml_dsa),
        ("x", vkey),
        ("log.example/other", &ml_dsa),
    ];
    assert_eq!(
        text(&list),
        expected.map(|(origin, key)| (origin.to_owned(), key.clone()))
    );
    let reasons = ["listed twice", "does not have the form"];
    assert_eq!(list.skipped.len(), reasons.len());
    for (skipped, reason) in list.skipped.iter().zip(reasons) {
        assert!(skipped.contains(reason), "{skipped}");
    }
    assert!(LogList::parse(b"logs/v0\n").unwrap().logs.is_empty());
    for (wrong, message) in [
        ("", "expected JSON"),
        ("logs/v1\n", "expected JSON"),
        ("\u{feff}logs/v0", "expected JSON"),
        ("logs/v0\norigin x\n", "line 2"),
        ("logs/v0\nvkey\n", "line 2"),
        ("{}", "operators"),
        ("{", "JSON"),
    ] {
        let error = LogList::parse(wrong.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(message), "{wrong:?}: {error}");
    }
    assert!(LogList::parse(b"logs/v0\n\xff").is_err());
}

#[test]
fn lists_of_ct_logs() {
    let key = LogKey::from_seed(&[7; 32]).unwrap();
    let spki = base64_simd::STANDARD.encode_to_string(key.public_key_spki());
    let log = |urls: &str| {
        format!(
            r#"{{"description": "d", "log_id": "{}", "key": "{spki}", "mmd": 60, {urls}}}"#,
            key.log_id()
        )
    };
    let with = |logs: &str, tiled: &str| {
        let list = format!(
            r#"{{"operators": [{{"name": "A", "logs": [{logs}], "tiled_logs": [{tiled}]}}]}}"#
        );
        LogList::parse(list.as_bytes()).unwrap()
    };
    let urls = r#""submission_url": "https://log.example/2026h2/", "monitoring_url": "https://m/""#;
    let list = with("", &log(urls));
    assert_eq!(
        text(&list),
        [("log.example/2026h2".to_owned(), spki.clone())]
    );
    // A log of RFC 6962 has no checkpoints.
    let old = log(r#""url": "https://log.example/old/""#);
    assert!(with(&old, "").logs.is_empty());
}

#[tokio::test]
async fn logs_of_lists_are_remembered() {
    let lock = memory();
    let one = witness(&[ORIGIN], lock.clone());
    let added = [parse("example.com/foo", VKEY)];
    // Only `create` creates the value, because the lock may be lost.
    let lost = [one.remembered().await.map(drop), one.remember(&added).await];
    assert!(
        lost.iter()
            .all(|it| matches!(it, Err(MemoryError::NoState)))
    );
    assert!(!one.exists().await.unwrap());
    assert_eq!(
        [one.create().await.unwrap(), one.create().await.unwrap()],
        [true, false]
    );
    assert!(one.exists().await.unwrap());
    assert!(one.remembered().await.unwrap().is_empty());
    let ct = LogKey::from_seed(&[7; 32]).unwrap();
    let ct = base64_simd::STANDARD.encode_to_string(ct.public_key_spki());
    one.remember(&added).await.unwrap();
    // A known log keeps its key.
    let other_key = ml_dsa("example.com/foo");
    let added = [
        parse("example.com/foo", &other_key),
        parse("ct.example", &ct),
    ];
    one.remember(&added).await.unwrap();
    let stored = lock.load(&list_key()).await.unwrap().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(json["log_meta"]["example.com/foo"]["Verifiers"][0], VKEY);
    one.remember(&added).await.unwrap();
    let again = lock.load(&list_key()).await.unwrap().unwrap();
    assert_eq!(again, stored);
    // Another process of the same witness knows them, and another witness does not.
    let two = witness(&[], lock.clone());
    let remembered = two.remembered().await.unwrap();
    let texts: Vec<_> = remembered
        .iter()
        .map(|(origin, key)| (&**origin, key.to_string()))
        .collect();
    assert_eq!(
        texts,
        [("example.com/foo", VKEY.to_owned()), ("ct.example", ct)]
    );
    let (listed, skipped) = two.add_logs(remembered);
    assert_eq!(
        (listed.len(), skipped.len(), two.logs().origins().len()),
        (2, 0, 2)
    );
    // The key of a known log does not change, and the witness is not a log.
    let own = "witness.example/w1";
    let more = vec![added[0].clone(), added[1].clone(), parse(own, &ml_dsa(own))];
    let (listed, skipped) = two.add_logs(more);
    let [(origin, _)] = &listed[..] else {
        panic!("{listed:?}");
    };
    assert_eq!(origin, "ct.example");
    let reasons = [
        Skipped::OtherKey("example.com/foo".to_owned()),
        Skipped::Unfit(InvalidWitness::Name(own.to_owned())),
    ];
    assert_eq!(skipped, reasons);
    assert_eq!(two.logs().origins().len(), 2);
    let keys = vec![Cosigner::ed25519("witness.example/w2", &[9; 32]).unwrap()];
    let other = Witness::new(keys, super::known(&[]), Arc::new(lock.clone())).unwrap();
    assert!(matches!(
        other.remembered().await,
        Err(MemoryError::NoState)
    ));
}

/// A list of any size adds at most 10,000 logs.
#[test]
fn the_number_of_logs_is_bounded() {
    let witness = witness(&[ORIGIN], memory());
    let (_, key) = parse("example.com/foo", VKEY);
    let log = |number: usize| (format!("log{number}.example"), Arc::clone(&key));
    let (listed, skipped) = witness.add_logs((0..10_002).map(log).collect());
    assert_eq!(
        (listed.len(), &skipped[..]),
        (9_999, &[Skipped::TooMany][..])
    );
    assert_eq!(witness.logs().origins().len(), 10_000);
    // The known logs stay.
    let (listed, skipped) = witness.add_logs(vec![log(0), log(10_001)]);
    assert_eq!((listed.len(), skipped), (1, vec![Skipped::TooMany]));
}

/// The fields of Sunlight that this witness does not use stay.
#[tokio::test]
async fn the_value_of_sunlight_is_kept() {
    let lock = memory();
    let witness = witness(&[], lock.clone());
    let key = list_key();
    let log = format!(r#"{{"Verifiers":["{VKEY}","not-a-key"],"Mirror":true}}"#);
    let sunlight = format!(r#"{{"log_meta":{{"example.com/foo":{log}}},"later":[1]}}"#);
    lock.create(&key, sunlight.as_bytes()).await.unwrap();
    let remembered = witness.remembered().await.unwrap();
    assert_eq!(remembered.len(), 1);
    let origin = "log.example/ml-dsa";
    let added = parse(origin, &ml_dsa(origin));
    witness.remember(&[added]).await.unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&lock.load(&key).await.unwrap().unwrap()).unwrap();
    let before: serde_json::Value = serde_json::from_str(&sunlight).unwrap();
    assert_eq!(json["later"], before["later"]);
    let log = "example.com/foo";
    assert_eq!(json["log_meta"][log], before["log_meta"][log]);
    assert_eq!(json["log_meta"][origin]["Mirror"], false);
    lock.tamper(&key, Some(b"[]".to_vec()));
    assert!(witness.remembered().await.is_err());
}

/// Returns Sunlight's key of the list in the lock, for the witness of these tests.
fn list_key() -> [u8; 32] {
    let keys = cosigners();
    let key = keys[0].verifier().public_key();
    lucarne_ct::sha256(&[b"\x05\x00witness config\n", key])
}
