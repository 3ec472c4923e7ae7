//! Tests with real certificates: every row of the corpus gets its verdict, and the entries of a
//! public log are parsed, encoded again and hashed correctly. Without a corpus, each test prints
//! one line.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lucarne_ct::lint::{Lint, Linted, Weight};
use lucarne_ct::{
    Certificate, Chain, Code, Entry, EntryKind, LogList, Policy, PublicKey, Rejection, Require,
    Roots, SctList, SignedEntryRef, TileLeafRef, Validator, embedded_entry, encode_sct_list,
    tbs_without_poison,
};

/// Returns `$LUCARNE_CORPUS`, or `shared/corpus` next to the workspace.
fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let corpus = std::env::var_os("LUCARNE_CORPUS").map_or(beside, PathBuf::from);
    if corpus.join("index.tsv").exists() {
        return Some(corpus);
    }
    println!(
        "skipped: no corpus at {} (set LUCARNE_CORPUS)",
        corpus.display()
    );
    None
}

/// A line of index.tsv.
struct Row<'a> {
    file: &'a str,
    kind: EntryKind,
    roots: &'a str,
    accept: bool,
    server_auth: bool,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Self {
        let fields: Vec<_> = line.split('\t').collect();
        Self {
            file: fields[0],
            kind: match fields[1] {
                "add-chain" => EntryKind::X509,
                "add-pre-chain" => EntryKind::Precert,
                other => panic!("unknown endpoint {other}"),
            },
            roots: fields[2],
            accept: fields[3] == "accept",
            server_auth: fields[4] == "yes",
        }
    }

    fn chain(&self, corpus: &Path) -> Vec<Vec<u8>> {
        let pem = fs::read_to_string(corpus.join(self.file)).unwrap();
        let blocks = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
        blocks
            .map(|block| {
                let base64 = block.split("-----END").next().unwrap();
                base64_simd::forgiving_decode_to_vec(base64.as_bytes()).unwrap()
            })
            .collect()
    }
}

/// The validators of one roots file, one for each `require`.
struct Validators {
    server_auth: Validator,
    any: Validator,
}

impl Validators {
    fn load(corpus: &Path, roots: &str) -> Self {
        let pem = fs::read(corpus.join(format!("roots/{roots}.pem"))).unwrap();
        let (roots, skipped) = Roots::from_pem(&pem);
        assert!(skipped.is_empty(), "{skipped:?}");
        let roots = Arc::new(roots);
        let validator = |require| {
            let policy = Policy {
                require,
                ..Policy::default()
            };
            Validator::new(roots.clone(), policy)
        };
        Self {
            server_auth: validator(Require::ServerAuth),
            any: validator(Require::Any),
        }
    }
}

fn submit(validator: &Validator, chain: &[Vec<u8>], kind: EntryKind) -> Result<Entry, Rejection> {
    let chain = Chain::decode_json(&body(chain), &Default::default())?;
    let examined = validator.examine(&chain, kind, 0)?;
    let identity = examined.identity().copied();
    let entry = validator.verify(examined)?;
    assert!(identity.is_none_or(|identity| identity == entry.identity));
    assert_eq!(entry.identity, entry.signed.identity());
    Ok(entry)
}

fn body(chain: &[Vec<u8>]) -> Vec<u8> {
    let base64 = |der: &Vec<u8>| base64_simd::STANDARD.encode_to_string(der);
    let chain: Vec<_> = chain.iter().map(base64).collect();
    format!(r#"{{"chain":["{}"]}}"#, chain.join("\",\"")).into_bytes()
}

#[test]
fn every_chain_gets_its_verdict() {
    let Some(corpus) = corpus() else { return };
    let index = fs::read_to_string(corpus.join("index.tsv")).unwrap();
    let mut validators: HashMap<&str, Validators> = HashMap::new();
    let (mut rows, mut wrong) = (0, Vec::new());
    for row in index.lines().skip(1).map(Row::parse) {
        let validators = validators
            .entry(row.roots)
            .or_insert_with(|| Validators::load(&corpus, row.roots));
        let chain = row.chain(&corpus);
        // Twice: the second time the tail is cached.
        for _ in 0..2 {
            let any = submit(&validators.any, &chain, row.kind);
            let server_auth = submit(&validators.server_auth, &chain, row.kind);
            if any.is_ok() != row.accept {
                let code = any.as_ref().err();
                wrong.push(format!("{}: require any: {code:?}", row.file));
            }
            let as_expected = match &server_auth {
                Ok(_) => row.accept && row.server_auth,
                Err(rejection) if row.accept => {
                    !row.server_auth && rejection.code == Code::MissingServerAuth
                }
                Err(_) => true,
            };
            if !as_expected {
                wrong.push(format!(
                    "{}: require server_auth: {server_auth:?}",
                    row.file
                ));
            }
            if let Ok(entry) = any {
                assert_eq!(row.kind, entry.signed.kind());
                let submitted = &chain[1..];
                let stored: Vec<_> = entry.issuers.iter().map(|i| i.der.to_vec()).collect();
                assert!(stored.starts_with(submitted), "{}", row.file);
                assert!(stored.len() - submitted.len() <= 1);
            }
        }
        rows += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("{rows} chains, each with its verdict in both settings");
}

/// No real chain needs an exception from the only accepted form around the signed part, and no
/// chain is accepted in another form, at any index.
#[test]
fn no_chain_is_taken_in_another_wrapping() {
    let Some(corpus) = corpus() else { return };
    let index = fs::read_to_string(corpus.join("index.tsv")).unwrap();
    let mut validators: HashMap<&str, Validators> = HashMap::new();
    let mut refused = 0;
    for row in index
        .lines()
        .skip(1)
        .map(Row::parse)
        .filter(|row| row.accept)
    {
        let log = &validators
            .entry(row.roots)
            .or_insert_with(|| Validators::load(&corpus, row.roots))
            .any;
        let chain = row.chain(&corpus);
        for place in 0..chain.len() {
            for other in crate::rewrapping::rewrappings(&chain[place]) {
                let mut rewrapped = chain.clone();
                rewrapped[place] = other.der;
                let verdict = submit(log, &rewrapped, row.kind);
                assert!(verdict.is_err(), "{} {place}: {}", row.file, other.how);
                refused += 1;
            }
        }
    }
    println!("{refused} other wrappings of real certificates");
}

/// The code of each refused chain: codes are part of the interface.
#[test]
fn refusals_say_why() {
    let Some(corpus) = corpus() else { return };
    let index = fs::read_to_string(corpus.join("index.tsv")).unwrap();
    let mut found = Vec::new();
    for row in index
        .lines()
        .skip(1)
        .map(Row::parse)
        .filter(|row| !row.accept)
    {
        let validator = Validators::load(&corpus, row.roots).any;
        let rejection = submit(&validator, &row.chain(&corpus), row.kind).unwrap_err();
        let name = row
            .file
            .trim_start_matches("must-reject/")
            .trim_end_matches(".pem");
        let at = rejection
            .certificate_index
            .map_or("-".to_owned(), |index| index.to_string());
        found.push(format!("{name} {at} {}", rejection.code));
        println!("{rejection}");
    }
    assert_eq!(found, REFUSALS);
}

/// File, index of the certificate at fault, code.
const REFUSALS: &[&str] = &[
    "azul-gts-cross 2 unknown_root",
    "azul-mismatch-sigalg-int 1 algorithm_mismatch",
    "ct5-issuersubject 0 wrong_order",
    "ctfe-misordered-len4 0 wrong_order",
    "ctfe-missing-int 0 unknown_root",
    "ctfe-unrelated-after-root 2 wrong_order",
    "ctfe-unrelated-after 1 wrong_order",
    "ctfe-unrelated-in 0 wrong_order",
    "ctfe-wrong-order 0 wrong_order",
    "ctgo-subleaf-pre-misordered 0 wrong_order",
    "gct-corrupted 0 invalid_certificate",
    "gct-md2 1 weak_algorithm",
    "gct-no-ca 1 not_a_certificate_authority",
    "lax-badhash 0 unsupported_algorithm",
    "lax-missing-int 0 unknown_root",
    "lax-root-before-int 0 wrong_order",
    "lax-v1-int 1 not_a_certificate_authority",
    "limbo-mismatch-sigalg 0 algorithm_mismatch",
    "mutated/dup-inter 2 duplicate_certificate",
    "mutated/dup-leaf 1 duplicate_certificate",
    "mutated/dup-root 3 duplicate_certificate",
    "mutated/extra-real-root 2 wrong_order",
    "mutated/inter-garbage 1 invalid_certificate",
    "mutated/inter-missing-root-present 0 wrong_order",
    "mutated/inter-sig-bitflip 1 invalid_signature",
    "mutated/inter-trailing-garbage 1 invalid_certificate",
    "mutated/leaf-empty 0 invalid_certificate",
    "mutated/leaf-sig-bitflip 0 invalid_signature",
    "mutated/leaf-tbs-bitflip 0 invalid_signature",
    "mutated/leaf-trailing-garbage 0 invalid_certificate",
    "mutated/leaf-truncated 0 invalid_certificate",
    "mutated/root-sig-bitflip 2 invalid_signature",
    "tess-cert-to-addprechain 0 certificate_on_add_pre_chain",
    "tess-leaf-only 0 unknown_root",
    "tess-pre-different-signer 0 wrong_order",
    "tess-precert-to-addchain 0 precertificate_on_add_chain",
];

#[test]
fn roots_that_strict_parsers_refuse_are_roots() {
    let Some(corpus) = corpus() else { return };
    for (file, count) in [("odd-unparsable-by-go", 2), ("main", 361), ("self", 6)] {
        let pem = fs::read(corpus.join(format!("roots/{file}.pem"))).unwrap();
        let (roots, skipped) = Roots::from_pem(&pem);
        assert!(skipped.is_empty(), "{file}: {skipped:?}");
        assert!(
            roots.len() <= count && roots.len() + 3 > count,
            "{file}: {}",
            roots.len()
        );
        let json = roots.get_roots_json();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["certificates"].as_array().unwrap().len(), roots.len());
    }
}

#[test]
fn entries_of_a_public_log() {
    let Some(corpus) = corpus() else { return };
    let (mut x509, mut precerts) = (0, 0);
    for tile in 0..4 {
        let path = |kind: &str| corpus.join(format!("tile-vectors/navigli2025h2/{kind}/{tile:03}"));
        let data = decompressed(fs::read(path("data")).unwrap());
        let hashes = fs::read(path("0")).unwrap();

        let (mut rest, mut again) = (&data[..], Vec::new());
        for (place, hash) in hashes.chunks_exact(32).enumerate() {
            let leaf = TileLeafRef::read(&mut rest).unwrap();
            assert_eq!(leaf.index, 256 * tile + place as u64);
            let mut merkle_tree_leaf = Vec::new();
            leaf.merkle_tree_leaf(&mut merkle_tree_leaf);
            assert_eq!(lucarne_tlog::leaf_hash(&merkle_tree_leaf).0, hash);
            leaf.encode(&mut again);
            match (leaf.signed, leaf.precertificate) {
                (SignedEntryRef::Precert { tbs, .. }, Some(precertificate)) => {
                    let precertificate = Certificate::parse(precertificate).unwrap();
                    assert_eq!(tbs_without_poison(&precertificate), tbs);
                    precerts += 1;
                }
                (SignedEntryRef::X509 { .. }, None) => x509 += 1,
                _ => unreachable!("a precertificate is there exactly for precertificates"),
            }
        }
        assert!(rest.is_empty());
        assert_eq!(again, data, "tile {tile} re-encodes byte for byte");
    }
    assert_eq!(x509 + precerts, 1024);
    println!("{precerts} precertificates and {x509} certificates");
}

/// Decompresses data tiles, which are compressed only in some directories.
fn decompressed(tile: Vec<u8>) -> Vec<u8> {
    if !tile.starts_with(&[0x1f, 0x8b]) {
        return tile;
    }
    let mut data = Vec::new();
    flate2::read::GzDecoder::new(&tile[..])
        .read_to_end(&mut data)
        .unwrap();
    data
}

/// The keys of some logs: the test log of Google's first implementation, Rocketeer (2015),
/// Xenon2026h1, Wyvern2026h1.
const LOG_KEYS: [&str; 4] = [
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmXg8sUUzwBYaWrRb+V0IopzQ6o3UyEJ04r5ZrRXGdpYM8K+hB0pXrGRLI0eeWz+3skXrS0IO83AhA3GpRL6s6w==",
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEIFsYyDzBi7MxCAC/oJBXK7dHjG+1aLCOkHjpoHPqTyghLpzA9BYbqvnV16mAw04vUjyYASVGJCUoI3ctBcJAeg==",
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEOh/Iu87VkEc0ysoBBCchHOIpPZK7kUXHWj6l1PIS5ujmQ7rze8I4r/wjigVW6wMKMMxjbNk8vvV7lLqU07+ITA==",
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE7Lw0OeKajbeZepHxBXJS2pOJXToHi5ntgKUW2nMhIOuGlofFxtkXum65TBNY1dGD+HrfHge8Fc3ASs0qMXEHVQ==",
];

/// Real certificates with SCTs: every list is parsed and encoded again, and the SCTs of logs with
/// known keys verify, except the one that was made invalid.
#[test]
fn embedded_scts() {
    let Some(corpus) = corpus() else { return };
    let keys = LOG_KEYS.map(|key| {
        let spki = base64_simd::STANDARD.decode_to_vec(key).unwrap();
        PublicKey::from_spki(&spki).unwrap()
    });
    let index = fs::read_to_string(corpus.join("index.tsv")).unwrap();
    let (mut lists, mut verified) = (0, HashMap::new());
    for row in index.lines().skip(1).map(Row::parse) {
        let chain = row.chain(&corpus);
        let chain: Vec<_> = chain
            .iter()
            .flat_map(|der| Certificate::parse(der))
            .collect();
        let [leaf, issuer, ..] = chain[..] else {
            continue;
        };
        let Some(list) = leaf.embedded_scts().unwrap() else {
            continue;
        };
        let scts: Result<Vec<_>, _> = SctList::parse(list).unwrap().iter().collect();
        let scts = scts.unwrap();
        assert_eq!(encode_sct_list(&scts).unwrap(), list, "{}", row.file);
        lists += 1;
        let entry = embedded_entry(&leaf, &issuer);
        for sct in scts.iter().filter(|_| row.accept) {
            let Some(key) = keys.iter().find(|key| key.log_id() == sct.log_id) else {
                continue;
            };
            let good = sct.verify(key, &entry).is_ok();
            assert_eq!(good, !row.file.contains("invalid-sct"), "{}", row.file);
            *verified.entry(sct.log_id.to_string()).or_insert(0) += usize::from(good);
        }
    }
    assert_eq!(verified.len(), keys.len(), "{verified:?}");
    println!(
        "{lists} lists, {} SCTs verified",
        verified.values().sum::<usize>()
    );
}

/// No certificate that was issued and used is reported as wrong; unknown properties are reported as
/// unverified.
#[test]
fn a_lint_raises_no_false_alarm() {
    let Some(corpus) = corpus() else { return };
    let index = fs::read_to_string(corpus.join("index.tsv")).unwrap();
    let roots = fs::read(corpus.join("roots/main.pem")).unwrap();
    let (roots, _) = Roots::from_pem(&roots);
    let (mut linted, mut verified) = (0, 0);
    for row in index.lines().skip(1).map(Row::parse) {
        // Two certificates are wrong on purpose: an altered SCT, and an invalid poison.
        if !row.accept || row.file.contains("invalid-sct") {
            continue;
        }
        let chain = row.chain(&corpus);
        let mut chain: Vec<_> = chain
            .iter()
            .flat_map(|der| Certificate::parse(der))
            .collect();
        let leaf = chain.remove(0);
        let above: Vec<_> = chain.iter().map(|above| above.issuer()).collect();
        let anchors = above.into_iter().chain([leaf.issuer()]);
        let anchors: Vec<_> = anchors
            .flat_map(|name| roots.find_by_subject(name))
            .map(|root| root.issuer().der.clone())
            .collect();
        chain.extend(anchors.iter().flat_map(|der| Certificate::parse(der)));
        let found = lint(&leaf, &chain, Some(&known_logs()));
        assert!(
            !found.has(Weight::Wrong),
            "{}: {:?}",
            row.file,
            found.findings
        );
        let valid = found.scts.iter().filter(|sct| sct.seen.valid().is_some());
        (linted, verified) = (linted + 1, verified + valid.count());
    }
    assert!(linted > 10 && verified > 0, "{linted}, {verified}");
    println!("{linted} certificates, {verified} SCTs verified");
}

/// The entries of a public log, each as its authority submitted it.
#[test]
fn a_lint_raises_no_false_alarm_over_a_log() {
    let Some(corpus) = corpus() else { return };
    let mut looked = 0;
    for tile in 0..4 {
        let data = corpus.join(format!("tile-vectors/navigli2025h2/data/{tile:03}"));
        let data = decompressed(fs::read(data).unwrap());
        let mut rest = &data[..];
        while !rest.is_empty() {
            let leaf = TileLeafRef::read(&mut rest).unwrap();
            let der = match (leaf.signed, leaf.precertificate) {
                (SignedEntryRef::X509 { certificate }, _) => certificate,
                (_, Some(precertificate)) => precertificate,
                _ => unreachable!("a precertificate is there exactly for precertificates"),
            };
            let certificate = Certificate::parse(der).unwrap();
            let found = lint(&certificate, &[], Some(&known_logs()));
            assert!(!found.has(Weight::Wrong), "{:?}", found.findings);
            looked += 1;
        }
    }
    assert_eq!(looked, 1024);
}

fn lint(leaf: &Certificate<'_>, issuers: &[Certificate<'_>], list: Option<&LogList>) -> Linted {
    let lint = Lint {
        list,
        issuers,
        at_ms: 1_785_000_000_000,
    };
    lint.look_at(leaf, None)
}

/// Returns a list of the logs with known keys.
fn known_logs() -> LogList {
    let logs = LOG_KEYS.map(|key| {
        let spki = base64_simd::STANDARD.decode_to_vec(key).unwrap();
        let log_id = PublicKey::from_spki(&spki).unwrap().log_id();
        serde_json::json!({
            "key": key, "log_id": log_id.to_string(), "url": "https://log.example/",
            "state": {"usable": {"timestamp": "2013-01-01T00:00:00Z"}}
        })
    });
    let operators = logs.map(|log| serde_json::json!({"name": log["log_id"], "logs": [log]}));
    let list = serde_json::json!({ "operators": operators });
    LogList::parse(list.to_string().as_bytes()).unwrap()
}
