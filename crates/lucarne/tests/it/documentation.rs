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
        keys::READ_LIMITS,
        keys::IDENTITY,
        keys::SHARED,
        keys::PLANNED_CHANGE,
        keys::RATE_LIMIT,
        keys::INSTANCES,
        keys::BACKLOG,
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

/// What `docs/reliability.md` says that a test holds, a test of that name in that file does.
#[test]
fn every_death_of_a_log_has_its_test() {
    let text = document("reliability.md");
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("How logs died"))
        .expect("the section is there");
    let rows: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert!(rows.len() >= 19, "{} rows", rows.len());
    for row in rows {
        let tests = linked_tests(row);
        assert!(!tests.is_empty(), "no test: {row}");
        for (name, file) in tests {
            let file = format!("../{file}");
            assert!(is_test(&document(&file), name), "no test {name} in {file}");
        }
    }
}

/// The names and files of links like ``[`name`](../crates/file.rs)``.
fn linked_tests(row: &str) -> Vec<(&str, &str)> {
    row.split("[`")
        .skip(1)
        .map(|link| {
            let (name, rest) = link.split_once("`](../").expect(row);
            (name, rest.split(')').next().unwrap())
        })
        .collect()
}

/// Says of a function that it is marked as a test, or is one of the cases that a macro marks.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let Some(at) = lines
        .iter()
        .position(|line| line.contains(&format!("fn {name}(")))
    else {
        return false;
    };
    let above = lines[..at].iter().rev();
    let marked = above
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
    marked || lines.contains(&name)
}
