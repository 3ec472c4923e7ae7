//! `cargo xtask errors`: compares the codes and messages on docs/reference/errors.md with the
//! sources.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::{files, root};

const PAGE: &str = "docs/reference/errors.md";

/// Source of the codes from the examination of a submission.
const REJECTIONS: &str = "crates/ct/src/rejection.rs";

/// Sources with codes of refusals in the arms of a `match`.
const RESPONSES: [&str; 2] = [
    "crates/http/src/error_response.rs",
    "crates/http/src/rfc6962/parameters.rs",
];

/// Functions with the code of a refusal among their arguments.
const CONSTRUCTORS: [&str; 7] = [
    "ErrorResponse::new(",
    "ErrorResponse::read(",
    "Self::new(",
    "Self::read(",
    "Self::retry(",
    "refused(",
    "later(",
];

/// Fails if the page lacks a code of the sources, or has a code or message that the sources lack.
pub(crate) fn run() -> Result<()> {
    let page = read(PAGE)?;
    let mut problems = Vec::new();
    for (kind, sources, documented) in [
        ("code", codes()?, first_cells(&page, is_refusals)),
        (
            "check",
            checks()?,
            first_cells(&page, |name| name == "Health checks"),
        ),
        ("exit code", exit_codes()?, documented_exit_codes(&page)),
    ] {
        println!("{PAGE}: {} {kind}s", sources.len());
        let missing = sources.difference(&documented);
        problems.extend(missing.map(|name| format!("{kind} `{name}` is missing")));
        let unknown = documented.difference(&sources);
        problems.extend(unknown.map(|name| format!("{kind} `{name}` is not in the sources")));
    }
    let texts = texts()?;
    let unknown = messages(&page).filter(|message| !texts.contains(message));
    problems.extend(unknown.map(|message| format!("message `{message}` is not in the sources")));
    if !problems.is_empty() {
        bail!(
            "{PAGE} does not match the sources:\n  {}",
            problems.join("\n  ")
        );
    }
    Ok(())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("reading {path}"))
}

/// Reads the sources of the product below a folder, without their unit tests.
fn sources(folder: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for path in files::with(&[&format!("{folder}/*.rs")])? {
        let text = read(&path)?;
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        found.push((path, text.to_owned()));
    }
    Ok(found)
}

/// Returns the codes of all refusals.
fn codes() -> Result<BTreeSet<String>> {
    let mut codes = rejections(&read(REJECTIONS)?);
    for (path, text) in sources("crates/http/src")? {
        if text.contains("ErrorResponse") {
            codes.extend(refusals(&text));
        }
        if RESPONSES.iter().any(|response| path == *response) {
            codes.extend(arms(&text));
        }
    }
    Ok(codes)
}

/// Returns the names in lines such as `WrongOrder = "wrong_order",`.
fn rejections(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| {
        let (variant, rest) = line.trim().split_once(" = \"")?;
        let is_variant = variant.bytes().all(|b| b.is_ascii_alphanumeric());
        rest.strip_suffix("\",").filter(|_| is_variant)
    });
    names.map(str::to_owned).collect()
}

/// Returns the codes in the arguments of [`CONSTRUCTORS`].
fn refusals(text: &str) -> BTreeSet<String> {
    let calls = CONSTRUCTORS.iter().flat_map(|call| {
        let places = text.match_indices(call);
        places.map(move |(at, _)| arguments(&text[at + call.len()..]))
    });
    calls
        .filter_map(|arguments| literals(arguments).find(|text| is_name(text)))
        .map(str::to_owned)
        .collect()
}

/// Returns the names on the right of the arms of a `match`.
fn arms(text: &str) -> impl Iterator<Item = String> {
    let rights = text.split("=> \"").skip(1);
    let rights = rights.filter_map(|rest| rest.split('"').next());
    rights.filter(|text| is_name(text)).map(str::to_owned)
}

/// Returns the text up to the parenthesis that closes a call.
fn arguments(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c: char| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

fn is_name(text: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    !text.is_empty() && text.bytes().all(is_letter)
}

/// Returns the names of the checks in `/health`.
fn checks() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for folder in ["crates/log/src", "crates/http/src"] {
        for (_, text) in sources(folder)? {
            let checks = text.split("Check {").skip(1);
            let fields = checks.filter_map(|rest| rest.trim_start().strip_prefix("name: \""));
            names.extend(fields.filter_map(|rest| rest.split('"').next().map(str::to_owned)));
        }
    }
    Ok(names)
}

/// Returns the exit codes in the help texts of all commands.
fn exit_codes() -> Result<BTreeSet<String>> {
    let mut codes = BTreeSet::new();
    for (_, text) in sources("crates/lucarne/src")? {
        for help in text.split("Exit codes:").skip(1) {
            let help = help.split('"').next().unwrap_or_default();
            let words = help.split([' ', '\n', ';']);
            codes.extend(
                words
                    .filter(|word| word.parse::<u8>().is_ok())
                    .map(str::to_owned),
            );
        }
    }
    Ok(codes)
}

/// Returns the sources of the product, with every string literal on one line.
fn texts() -> Result<String> {
    let mut texts = String::new();
    let of_product = |(path, _): &(String, String)| path.contains("/src/");
    for (_, text) in sources("crates")?.into_iter().filter(of_product) {
        for line in text.replace("\\\"", "\"").lines() {
            // After a backslash, the literal continues in the next line.
            texts.push_str(line.trim_start().trim_end_matches('\\'));
            if !line.ends_with('\\') {
                texts.push('\n');
            }
        }
    }
    Ok(texts)
}

/// Returns the messages of the page, without the values that `…` stands for.
fn messages(page: &str) -> impl Iterator<Item = &str> {
    let mut sections = page.split("\n## ");
    let section = sections.find(|section| section.starts_with("Error messages"));
    let lines = section.unwrap_or_default().lines();
    let rows = lines.skip_while(|line| !line.starts_with("|---"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    quoted.flat_map(|text| text.split('…')).map(str::trim)
}

fn is_refusals(heading: &str) -> bool {
    !["Error messages", "Health checks", "Exit codes"].contains(&heading)
}

/// Returns the names in the first column of the sections with these headings.
fn first_cells(page: &str, is_wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let sections = page.split("\n## ").skip(1);
    let sections = sections.filter(|section| section.lines().next().is_some_and(&is_wanted));
    let names = sections.flat_map(str::lines).filter_map(|line| {
        let rest = line.strip_prefix("| `")?;
        rest.split('`').next()
    });
    names.map(str::to_owned).collect()
}

fn documented_exit_codes(page: &str) -> BTreeSet<String> {
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with("Exit codes"));
    let rows = section.unwrap_or_default().lines();
    let cells = rows.filter_map(|line| line.split('|').nth(2).map(str::trim));
    cells
        .filter(|cell| cell.parse::<u8>().is_ok())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn codes_are_found_in_calls_and_arms() {
        let text = "ErrorResponse::new(\n    status(400),\n    \"bad_index\",\n    format!(\"x y\"),\n)\n\
                    Self::retry(code, words); later(\"busy\", &words, 1)\n";
        assert_eq!(refusals(text), set(["bad_index", "busy"]));
        let arms: BTreeSet<_> =
            arms("Lane::Old => \"backlog_full\",\n_ => \"the log failed\",").collect();
        assert_eq!(arms, set(["backlog_full"]));
        assert_eq!(
            rejections("    WrongOrder = \"wrong_order\",\n"),
            set(["wrong_order"])
        );
    }

    #[test]
    fn the_page_is_read_by_section() {
        let page = "# Errors\n\n## Error messages\n\n| m |\n|---|\n| `a … b`, `c` | x |\n\n\
                    ## Refused reads\n\n| code |\n|---|\n| `busy` | 503 |\n\n\
                    ## Health checks\n\n| `lock` | x |\n\n## Exit codes\n\n| `check` | 3 | x |\n";
        assert!(messages(page).eq(["a", "b", "c"]));
        assert_eq!(first_cells(page, is_refusals), set(["busy"]));
        assert_eq!(
            first_cells(page, |name| name == "Health checks"),
            set(["lock"])
        );
        assert_eq!(documented_exit_codes(page), set(["3"]));
    }

    #[test]
    fn the_page_has_all_codes() {
        assert!(codes().unwrap().len() > 45);
        assert!(checks().unwrap().len() > 10);
        assert!(exit_codes().unwrap().len() > 8);
        assert!(messages(&read(PAGE).unwrap()).count() > 50);
        run().unwrap();
    }
}
