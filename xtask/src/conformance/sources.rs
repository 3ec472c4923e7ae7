//! Functions and tests of the crates, found by their paths in the source files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The source files of all crates.
pub(super) struct Sources {
    files: Vec<SourceFile>,
}

/// A source file and its module path, such as `ct::chain` or `http::it::conformance`.
struct SourceFile {
    module: String,
    text: String,
}

impl Sources {
    /// Reads the Rust files of the crates below a folder.
    pub(super) fn read(crates: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut folders = vec![crates.to_owned()];
        while let Some(folder) = folders.pop() {
            let context = || format!("reading {}", folder.display());
            for entry in fs::read_dir(&folder).with_context(context)? {
                let path = entry.with_context(context)?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(module) = module_of(path.strip_prefix(crates)?) {
                    let text = fs::read_to_string(&path)
                        .with_context(|| format!("reading {}", path.display()))?;
                    files.push(SourceFile { module, text });
                }
            }
        }
        Ok(Sources { files })
    }

    /// Creates sources with these files, for tests.
    #[cfg(test)]
    pub(super) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let files = files
            .into_iter()
            .filter_map(|(path, text)| {
                let text = text.to_owned();
                module_of(Path::new(path)).map(|module| SourceFile { module, text })
            })
            .collect();
        Sources { files }
    }

    /// Returns true if this path names a function.
    pub(super) fn has_function(&self, path: &str) -> bool {
        self.has(path, |text, name| !definitions(text, name).is_empty())
    }

    /// Returns true if this path names a function that is marked as a test, or a case of a
    /// macro that generates tests.
    pub(super) fn has_test(&self, path: &str) -> bool {
        self.has(path, is_test)
    }

    /// Looks up a path: its module is a file, and all types and modules between the file and the
    /// function occur in this file.
    fn has(&self, path: &str, defines: impl Fn(&str, &str) -> bool) -> bool {
        self.files.iter().any(|file| {
            let Some(rest) = path.strip_prefix(&file.module) else {
                return false;
            };
            let mut inner: Vec<&str> = rest.split("::").collect();
            let Some(name) = inner.pop() else {
                return false;
            };
            inner.first() == Some(&"")
                && inner[1..].iter().all(|scope| has_scope(&file.text, scope))
                && defines(&file.text, name)
        })
    }
}

/// Returns the module of a file, from its path below `crates`; `None` for other files.
fn module_of(path: &Path) -> Option<String> {
    let path = path.to_str()?.strip_suffix(".rs")?;
    let mut parts: Vec<&str> = path.split('/').collect();
    if !matches!(parts.get(1), Some(&("src" | "tests"))) {
        return None;
    }
    parts.remove(1);
    if parts.len() > 1 && matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
        parts.pop();
    }
    Some(parts.join("::"))
}

/// Returns the numbers of the lines that define a function of this name.
fn definitions(text: &str, name: &str) -> Vec<usize> {
    let opens = |line: &str| {
        let rest = line.split_once(&format!("fn {name}"));
        rest.is_some_and(|(_, rest)| rest.starts_with(['(', '<']))
    };
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let numbered = text.lines().enumerate();
    numbered
        .filter(|(_, line)| !is_comment(line) && opens(line))
        .map(|(at, _)| at)
        .collect()
}

fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_marked = |at: usize| {
        lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    definitions(text, name).into_iter().any(is_marked)
        || (0..lines.len()).any(|at| lines[at] == name && is_case(&lines[..at]))
}

/// Returns true if the line after these lines is in the list of a macro, one name a line.
fn is_case(above: &[&str]) -> bool {
    let is_name = |line: &str| line.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let head = above.iter().rev().find(|line| !is_name(line));
    head.is_some_and(|line| line.contains("! {"))
}

/// Returns true if a type or an inner module of this name occurs in a file.
fn has_scope(text: &str, name: &str) -> bool {
    let is_module = || text.contains(&format!("mod {name} {{"));
    let is_type = || {
        text.lines()
            .filter(|line| {
                ["impl", "trait ", "pub trait "]
                    .iter()
                    .any(|word| line.starts_with(word))
            })
            .any(|line| {
                line.split(|c: char| !c.is_alphanumeric())
                    .any(|word| word == name)
            })
    };
    is_module() || is_type()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        Sources::of([
            (
                "log/src/round.rs",
                "impl<'r> Round<'r> {\n    pub(crate) async fn seal<T>(&self) {}\n}\n\
                 // fn removed() {}\n\
                 mod tests {\n    #[tokio::test]\n    // why\n    async fn seals() {}\n}\n",
            ),
            ("log/src/round/cost.rs", "pub fn cost() {}\n"),
            (
                "storage/tests/it/main.rs",
                "cases! {\n    full_disk\n    hung_disk\n}\nfn rate() -> u8 {\n    rate\n}\n",
            ),
            ("storage/build.rs", "fn main() {}\n"),
        ])
    }

    #[test]
    fn functions_are_found_by_module_and_type() {
        for path in [
            "log::round::Round::seal",
            "log::round::seal",
            "log::round::cost::cost",
        ] {
            assert!(sources().has_function(path), "{path}");
        }
        for path in [
            "log::round::Pool::seal",
            "log::round::sea",
            "log::round::removed",
            "log::roun::seal",
            "storage::build::main",
            "ct::round::seal",
        ] {
            assert!(!sources().has_function(path), "{path}");
        }
    }

    #[test]
    fn tests_are_marked_functions_and_cases_of_macros() {
        for path in [
            "log::round::tests::seals",
            "storage::it::full_disk",
            "storage::it::hung_disk",
        ] {
            assert!(sources().has_test(path), "{path}");
        }
        for path in [
            "log::round::Round::seal",
            "storage::it::cases",
            "storage::it::rate",
            "log::round::cost::cost",
        ] {
            assert!(!sources().has_test(path), "{path}");
        }
    }

    #[test]
    fn modules_follow_from_paths() {
        let module = |path: &str| module_of(Path::new(path));
        assert_eq!(module("ct/src/lib.rs").as_deref(), Some("ct"));
        assert_eq!(
            module("http/tests/it/support/mod.rs").as_deref(),
            Some("http::it::support")
        );
        assert_eq!(module("http/tests/it/main.rs").as_deref(), Some("http::it"));
        assert_eq!(
            module("http/tests/bad_input.rs").as_deref(),
            Some("http::bad_input")
        );
        assert_eq!(module("http/Cargo.toml"), None);
    }
}
