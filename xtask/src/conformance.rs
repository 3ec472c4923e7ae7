//! `cargo xtask conformance`: compares the functions and tests that pages name with the sources.

mod sources;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::root;
use sources::Sources;

/// Pages with tables whose last two columns are functions and tests.
const PAGES: [&str; 2] = [
    "docs/reference/conformance.md",
    "docs/explanation/incidents.md",
];

/// Words that begin the reason of a row without a function.
const REASONS: [&str; 3] = ["Not applicable:", "Not implemented:", "Operator:"];

/// Checks every page, and fails with the list of all rows to correct.
pub(crate) fn run() -> Result<()> {
    let sources = Sources::read(&root().join("crates"))?;
    let mut problems = Vec::new();
    for page in PAGES {
        let text =
            fs::read_to_string(root().join(page)).with_context(|| format!("reading {page}"))?;
        let found = check(&text, &sources);
        problems.extend(found.iter().map(|problem| format!("{page}:{problem}")));
        println!("{page}: {} rows", rows(&text).count());
    }
    if !problems.is_empty() {
        bail!(
            "names do not match the sources:\n  {}\n\
             correct the names, or add a reason that begins with one of {REASONS:?}",
            problems.join("\n  ")
        );
    }
    Ok(())
}

/// A row of a table: its line number and its cells.
struct Row<'p> {
    line: usize,
    cells: Vec<&'p str>,
}

/// Returns the rows of all tables of a page, without heads and separators.
fn rows(page: &str) -> impl Iterator<Item = Row<'_>> {
    let mut in_body = false;
    page.lines().enumerate().filter_map(move |(at, text)| {
        let Some(inner) = text.trim().strip_prefix('|') else {
            in_body = false;
            return None;
        };
        if inner.starts_with("---") {
            in_body = true;
            return None;
        }
        let inner = inner.strip_suffix('|').unwrap_or(inner);
        let cells = inner.split('|').map(str::trim).collect();
        in_body.then_some(Row {
            line: at + 1,
            cells,
        })
    })
}

/// Returns the problems of a page, each with its line.
fn check(page: &str, sources: &Sources) -> Vec<String> {
    let mut problems = Vec::new();
    for row in rows(page) {
        let mut problem = |text: String| problems.push(format!("{}: {text}", row.line));
        let [.., function, test] = row.cells[..] else {
            problem("expected a column of functions and a column of tests".to_owned());
            continue;
        };
        if REASONS.iter().any(|reason| function.starts_with(reason)) {
            if !test.is_empty() {
                problem("a row with a reason must not name a test".to_owned());
            }
        } else {
            for (column, cell) in [("function", function), ("test", test)] {
                if names(cell).next().is_none() {
                    problem(format!("no {column} is named, and no reason is given"));
                }
            }
        }
        for name in names(function).filter(|name| !sources.has_function(name)) {
            problem(format!("function `{name}` does not exist"));
        }
        for name in names(test).filter(|name| !sources.has_test(name)) {
            problem(format!("test `{name}` does not exist"));
        }
    }
    problems
}

/// Returns the paths in a cell, such as `ct::chain::Chain::decode_json`.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .filter(|span| span.contains("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        Sources::of([
            (
                "ct/src/chain.rs",
                "impl Chain {\n    pub fn decode(a: A) {}\n}\n",
            ),
            ("ct/tests/it/chains.rs", "#[test]\nfn broken() {}\n"),
        ])
    }

    fn problems(row: &str) -> Vec<String> {
        check(
            &format!("| rule | function | test |\n|---|---|---|\n{row}\n"),
            &sources(),
        )
    }

    #[test]
    fn a_row_names_a_function_and_a_test() {
        let row = "| MUST | `ct::chain::Chain::decode` | `ct::it::chains::broken` |";
        assert_eq!(problems(row), [""; 0]);
    }

    #[test]
    fn missing_names_are_reported_with_their_line() {
        let row = "| MUST | `ct::chain::Chain::encode` | `ct::it::chains::whole` |";
        assert_eq!(
            problems(row),
            [
                "3: function `ct::chain::Chain::encode` does not exist",
                "3: test `ct::it::chains::whole` does not exist",
            ]
        );
    }

    #[test]
    fn a_function_is_not_accepted_as_a_test() {
        let row = "| MUST | `ct::chain::Chain::decode` | `ct::chain::Chain::decode` |";
        assert_eq!(
            problems(row),
            ["3: test `ct::chain::Chain::decode` does not exist"]
        );
    }

    #[test]
    fn a_row_without_names_needs_a_reason() {
        assert_eq!(
            problems("| MUST | Not applicable: for clients | |"),
            [""; 0]
        );
        assert_eq!(problems("| MUST | for clients | |").len(), 2);
        assert_eq!(problems("| MUST | `ct::chain::Chain::decode` | |").len(), 1);
    }

    #[test]
    fn the_pages_name_only_what_exists() {
        run().unwrap();
    }
}
