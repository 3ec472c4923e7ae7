//! The documentation and the program say the same.
#![allow(clippy::unwrap_used)]

use lucarne::config::keys;

fn document(name: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Every key that the parser knows has a row of its own in
/// `docs/configuration.md`, and the document knows no other.
#[test]
fn every_key_is_documented() {
    let known = [
        keys::TOP,
        keys::TLS,
        keys::HTTP,
        keys::IDENTITY,
        keys::SHARED,
        keys::PLANNED_CHANGE,
        keys::RATE_LIMIT,
    ]
    .concat();
    rows_are("configuration.md", &known);
}

/// The same of a signer's file.
#[test]
fn every_key_of_a_signer_is_documented() {
    rows_are("signer.md", &[keys::SIGNER, keys::SIGNER_LOG].concat());
}

fn rows_are(name: &str, known: &[&str]) {
    let text = document(name);
    let rows: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    for key in known {
        assert!(rows.contains(key), "`{key}` is not in docs/{name}");
    }
    for row in &rows {
        assert!(
            known.contains(row),
            "docs/{name} has `{row}`, the parser does not"
        );
    }
}
