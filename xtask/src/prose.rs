//! `cargo xtask prose`: finds phrases that `STYLE.md` replaces, in comments, texts and
//! Markdown. Each file has a number of allowed findings, which is never raised.

mod pieces;
mod rules;
mod tokens;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{files, root};
use rules::Finding;

/// File with the allowed number of findings of each file, one file a line.
const BASELINE: &str = "docs/prose-baseline.txt";

/// File with the table of the phrases themselves, which is not checked.
const TABLE: &str = "xtask/src/prose/rules.rs";

/// Number of findings of each file with findings.
type Counts = BTreeMap<String, usize>;

/// Checks every file, lowers the baseline (`--update`), or lists the findings of some files.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => check(),
        [flag] if flag == "--update" => update(),
        [flag, ..] if flag.starts_with('-') => {
            bail!("unknown flag `{flag}`: use --update, or the start of a path")
        }
        paths => list(paths),
    }
}

fn check() -> Result<()> {
    let findings = all_findings()?;
    let counts = counts(&findings);
    let baseline = read_baseline()?.unwrap_or_default();
    let over = over(&counts, &baseline);
    for path in &over {
        print(path, &findings[*path]);
    }
    let total: usize = counts.values().sum();
    if !over.is_empty() {
        let files: String = over.iter().fold(String::new(), |mut lines, path| {
            let allowed = baseline.get(*path).copied().unwrap_or(0);
            let found = counts[*path];
            let _ = write!(lines, "\n  {path}: {found} findings, {allowed} allowed");
            lines
        });
        bail!(
            "files have more findings than {BASELINE} allows:{files}\n\
             rewrite these places as the suggestions and STYLE.md show"
        );
    }
    let allowed: usize = baseline.values().sum();
    println!("{total} findings, {allowed} allowed by {BASELINE}");
    if lowered(&counts, &baseline) != baseline {
        println!("run `cargo xtask prose --update` to lower the numbers");
    }
    Ok(())
}

fn update() -> Result<()> {
    let counts = counts(&all_findings()?);
    let new = match read_baseline()? {
        Some(baseline) => lowered(&counts, &baseline),
        None => counts,
    };
    let path = root().join(BASELINE);
    fs::write(&path, format_baseline(&new)).with_context(|| format!("writing {BASELINE}"))?;
    let total: usize = new.values().sum();
    println!("{BASELINE}: {total} findings in {} files", new.len());
    Ok(())
}

fn list(prefixes: &[String]) -> Result<()> {
    let findings = all_findings()?;
    let mut total = 0;
    for (path, found) in &findings {
        if prefixes.iter().any(|prefix| path.starts_with(prefix)) {
            print(path, found);
            total += found.len();
        }
    }
    println!("{total} findings");
    Ok(())
}

fn print(path: &str, findings: &[Finding]) {
    for finding in findings {
        println!("{path}:{finding}");
    }
}

/// Returns the files with more findings than the baseline allows.
fn over<'c>(counts: &'c Counts, baseline: &Counts) -> Vec<&'c String> {
    let allowed = |path: &String| baseline.get(path).copied().unwrap_or(0);
    counts
        .iter()
        .filter(|(path, found)| **found > allowed(path))
        .map(|(path, _)| path)
        .collect()
}

/// Returns the smaller of the two numbers for each file; a file that is not in the baseline stays
/// at zero.
fn lowered(counts: &Counts, baseline: &Counts) -> Counts {
    baseline
        .iter()
        .filter_map(|(path, allowed)| {
            let found = counts.get(path).copied().unwrap_or(0);
            let least = found.min(*allowed);
            (least > 0).then(|| (path.clone(), least))
        })
        .collect()
}

fn counts(findings: &BTreeMap<String, Vec<Finding>>) -> Counts {
    findings
        .iter()
        .filter(|(_, found)| !found.is_empty())
        .map(|(path, found)| (path.clone(), found.len()))
        .collect()
}

/// Reads the baseline, or returns `None` if the file does not exist.
fn read_baseline() -> Result<Option<Counts>> {
    let path = root().join(BASELINE);
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("reading {BASELINE}"))?;
    parse_baseline(&text).map(Some)
}

fn parse_baseline(text: &str) -> Result<Counts> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(at, line)| {
            let (path, number) = line.rsplit_once(' ').unwrap_or((line, ""));
            let number = number.parse().with_context(|| {
                format!(
                    "{BASELINE}:{}: expected a path and a number, found `{line}`",
                    at + 1
                )
            })?;
            Ok((path.to_owned(), number))
        })
        .collect()
}

fn format_baseline(counts: &Counts) -> String {
    let head = "# Allowed findings of `cargo xtask prose`, by file. Lower: --update. Never raise.\n\
                # The number of a file that is renamed or split moves with its text, by hand.\n";
    counts
        .iter()
        .fold(head.to_owned(), |mut text, (path, number)| {
            let _ = writeln!(text, "{path} {number}");
            text
        })
}

/// Returns the findings of each Rust and Markdown file of the repository.
fn all_findings() -> Result<BTreeMap<String, Vec<Finding>>> {
    let paths = files::with(&["*.rs", "*.md"])?;
    let half = paths.len().div_ceil(2).max(1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = paths
            .chunks(half)
            .map(|part| scope.spawn(move || part.iter().map(|path| findings_of(path)).collect()))
            .collect();
        let mut all = BTreeMap::new();
        for thread in threads {
            let part: Result<Vec<_>> = match thread.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            all.extend(part?);
        }
        Ok(all)
    })
}

fn findings_of(path: &str) -> Result<(String, Vec<Finding>)> {
    let text = fs::read_to_string(root().join(path)).with_context(|| format!("reading {path}"))?;
    Ok((path.to_owned(), examine(path, &text)))
}

/// Returns the findings of one file with this text.
fn examine(path: &str, text: &str) -> Vec<Finding> {
    let pieces = if Path::new(path).extension().is_some_and(|name| name == "md") {
        pieces::of_markdown(text)
    } else {
        pieces::of_rust(text, !is_test(path) && path != TABLE)
    };
    let mut findings: Vec<Finding> = pieces.iter().flat_map(rules::examine).collect();
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// Returns true for files whose texts only tests show.
fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("tests.rs")
        || ["bench/", "fuzz/", "crates/testkit/", "crates/targets/"]
            .iter()
            .any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of(numbers: &[(&str, usize)]) -> Counts {
        numbers
            .iter()
            .map(|(path, number)| ((*path).to_owned(), *number))
            .collect()
    }

    #[test]
    fn a_file_may_not_exceed_its_baseline() {
        let baseline = counts_of(&[("a.rs", 2), ("b.rs", 2)]);
        let counts = counts_of(&[("a.rs", 2), ("b.rs", 3), ("new.rs", 1)]);
        assert_eq!(over(&counts, &baseline), ["b.rs", "new.rs"]);
    }

    #[test]
    fn a_baseline_only_goes_down() {
        let baseline = counts_of(&[("better.rs", 5), ("clean.rs", 1), ("worse.rs", 2)]);
        let counts = counts_of(&[("better.rs", 3), ("new.rs", 4), ("worse.rs", 9)]);
        assert_eq!(
            lowered(&counts, &baseline),
            counts_of(&[("better.rs", 3), ("worse.rs", 2)])
        );
    }

    #[test]
    fn a_baseline_reads_back() {
        let counts = counts_of(&[("docs/a b.md", 12), ("x.rs", 1)]);
        assert_eq!(parse_baseline(&format_baseline(&counts)).unwrap(), counts);
        let error = parse_baseline("x.rs many").unwrap_err();
        assert!(error.to_string().contains("x.rs many"), "{error}");
    }

    #[test]
    fn texts_of_tests_are_not_examined_and_their_comments_are() {
        let source = "// Whoever waits.\nfn f() { panic!(\"nobody has an answer\") }\n";
        assert_eq!(examine("crates/log/src/submit/pool.rs", source).len(), 3);
        assert_eq!(examine("crates/log/tests/it/pool.rs", source).len(), 1);
    }

    #[test]
    fn the_style_guide_follows_its_own_rules() {
        let (_, findings) = findings_of("STYLE.md").unwrap();
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(lines, [""; 0]);
    }
}
