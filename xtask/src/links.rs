//! `cargo xtask links`: checks that the relative links of pages resolve, and that the pages whose
//! names occur in other files exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{files, root};

/// Files that may name a page.
const PATTERNS: [&str; 7] = [
    "*.md",
    "*.rs",
    "*.service",
    "*.socket",
    "*.conf",
    "*.yaml",
    "*.toml",
];

/// Endings of the files in `docs` whose names are checked in other files.
const ENDINGS: [&str; 4] = [".md", ".conf", ".service", ".socket"];

/// Checks all files, and fails with the list of broken links.
pub(crate) fn run() -> Result<()> {
    let mut texts = BTreeMap::new();
    for path in files::with(&PATTERNS)? {
        let text =
            fs::read_to_string(root().join(&path)).with_context(|| format!("reading {path}"))?;
        texts.insert(path, text);
    }
    let mut problems = Vec::new();
    let mut count = 0;
    for (path, text) in &texts {
        if path.ends_with(".md") {
            for (line, link) in links(text) {
                count += 1;
                problems
                    .extend(broken(path, link, &texts).map(|why| format!("{path}:{line}: {why}")));
            }
        }
        for (line, page) in pages(text) {
            count += 1;
            if !root().join(page).is_file() {
                problems.push(format!("{path}:{line}: `{page}` does not exist"));
            }
        }
    }
    if !problems.is_empty() {
        bail!("links are broken:\n  {}", problems.join("\n  "));
    }
    println!("{count} links and names of pages");
    Ok(())
}

/// Returns the relative links of a page with their lines, outside code.
fn links(page: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(page).flat_map(|(line, text)| {
        let targets = outside_code(text).flat_map(|span| span.split("](").skip(1));
        let targets = targets.filter_map(|rest| rest.split(')').next());
        targets
            .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
            .map(move |link| (line, link))
    })
}

/// Returns the lines of a page outside fenced code blocks, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    page.lines().enumerate().filter_map(move |(at, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then_some((at + 1, line))
    })
}

/// Returns the parts of a line outside code spans. A link whose text is code has its target outside
/// the code.
fn outside_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').step_by(2)
}

/// Returns the names of files in `docs`, such as `docs/reference/metrics.md`, with their lines.
fn pages(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(at, line)| {
        line.match_indices("docs/").filter_map(move |(start, _)| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            if line[..start].ends_with(is_name) {
                return None;
            }
            let name = &line[start..];
            let name = &name[..name.find(|c: char| !is_name(c)).unwrap_or(name.len())];
            let name = name.trim_end_matches('.');
            let is_page = ENDINGS.iter().any(|ending| name.ends_with(ending));
            is_page.then_some((at + 1, name))
        })
    })
}

/// Returns the reason why a link of this page does not resolve; `None` if the link resolves.
fn broken(page: &str, link: &str, texts: &BTreeMap<String, String>) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => resolved(page, file),
    };
    if !root().join(&target).exists() {
        return Some(format!("`{link}` does not exist"));
    }
    let is_page = target.ends_with(".md");
    let text = texts
        .get(&target)
        .filter(|_| is_page && !anchor.is_empty())?;
    let found = anchors(text).any(|known| known == anchor);
    (!found).then(|| format!("`{link}`: {target} has no such heading"))
}

/// Returns the path of a link below the root.
fn resolved(page: &str, file: &str) -> String {
    let mut path = PathBuf::new();
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    for component in folder.join(file).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path.to_string_lossy().into_owned()
}

/// Returns the anchors of the headings of a page, as GitHub forms them.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let headings = prose(page).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| {
        line.trim_start_matches('#')
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let page = "[a](b.md) and [`c`](d.md#e), [f](https://g.example/)\n\
                    ```\n[h](i.md)\n```\n`[j](k.md)` [l](../m.md)\n";
        let found: Vec<_> = links(page).collect();
        assert_eq!(found, [(1, "b.md"), (1, "d.md#e"), (5, "../m.md")]);
    }

    #[test]
    fn names_of_pages_are_found_in_any_text() {
        let text = "see docs/faq.md.\n\"docs/how-to/nginx.conf\", ../docs/a.md docs/load/\n\
                    https://h.example/docs/b.md mydocs/c.md\n";
        let found: Vec<_> = pages(text).collect();
        assert_eq!(found, [(1, "docs/faq.md"), (2, "docs/how-to/nginx.conf")]);
    }

    #[test]
    fn a_link_needs_its_file_and_its_heading() {
        let page = "# A page\n\n## `fsck`, and \"repair\"\n".to_owned();
        let texts = BTreeMap::from([("docs/README.md".to_owned(), page)]);
        let check = |link: &str| broken("docs/faq.md", link, &texts);
        for good in [
            "README.md",
            "../README.md",
            "README.md#fsck-and-repair",
            "how-to",
        ] {
            assert_eq!(check(good), None, "{good}");
        }
        assert!(check("absent.md").is_some_and(|why| why.contains("does not exist")));
        assert!(check("README.md#scrub").is_some_and(|why| why.contains("no such heading")));
    }

    #[test]
    fn all_links_resolve() {
        run().unwrap();
    }
}
