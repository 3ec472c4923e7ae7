//! The plan of a run with everything that agents need to prepare it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use base64_simd::STANDARD;
use lucarne_load::Run;
use lucarne_load::plan::Plan;
use lucarne_load::threshold::Threshold;
use lucarne_settings::{Node, Report, Value, environment, read_bounded, tree};
use serde::{Deserialize, Serialize};

use super::super::{plan, settings};

/// Limit of the plan and its files together.
const LARGEST: usize = 32 << 20;

/// The plan of a run with its files, variables and flags.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bundle {
    /// Name of the plan among the files.
    plan: String,
    /// Contents by relative path, in base64.
    files: BTreeMap<String, String>,
    /// Environment variables that the plan names.
    variables: BTreeMap<String, Option<String>>,
    seed: u64,
    threads: Option<u64>,
    thresholds: Vec<String>,
    allow: Vec<String>,
    tags: Vec<(String, String)>,
}

/// Reasons why a plan cannot be sent, or was not received.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    #[error("correct the plan first")]
    Plan,
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "the plan and its files have {0} bytes, expected at most {LARGEST}: copy large files to \
         all agents, and name them by absolute paths"
    )]
    TooLarge(usize),
    #[error("`{0}` is not a path below the directory of the agent")]
    Path(String),
    #[error("{} cannot be written: {source}", .path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("the file {0} is not base64")]
    Base64(String),
    #[error("{0}")]
    Run(String),
}

impl Bundle {
    /// Reads a plan, and the files and roots that it names by relative paths. Returns them with the
    /// run.
    pub(super) fn read(path: &Path, flags: &settings::Flags) -> Result<(Self, Run), BundleError> {
        let variables = RefCell::new(BTreeMap::new());
        let lookup = |name: &str| {
            let value = std::env::var(name).ok();
            variables
                .borrow_mut()
                .insert(name.to_owned(), value.clone());
            value
        };
        let planned = plan::read_with(path, &lookup).ok_or(BundleError::Plan)?;
        let seed = flags.seed(planned.seed);
        let name = path.file_name().unwrap_or(path.as_os_str());
        let mut bundle = Bundle {
            plan: name.to_string_lossy().into_owned(),
            files: BTreeMap::new(),
            variables: BTreeMap::new(),
            seed,
            threads: flags.threads,
            thresholds: flags.thresholds.iter().map(line).collect(),
            allow: flags.allow.clone(),
            tags: flags.tags.clone(),
        };
        let mut total = 0;
        let yaml = bundle.add(&bundle.plan.clone(), path, &mut total)?;
        let yaml = String::from_utf8_lossy(&yaml);
        if let Ok(mut root) = tree::parse(yaml.trim_start_matches('\u{feff}')) {
            environment::substitute(&mut root, &lookup, &mut Report::on(None));
            bundle.add_named(&root, &mut total)?;
        }
        bundle.variables = variables.into_inner();
        let run = plan::into_run(planned, path, flags, seed);
        let run = run.map_err(|error| BundleError::Run(error.to_string()))?;
        Ok((bundle, run))
    }

    /// Adds the files that a node of the plan names.
    fn add_named(&mut self, node: &Node, total: &mut usize) -> Result<(), BundleError> {
        match &node.value {
            Value::Nothing | Value::Unset => Ok(()),
            Value::Scalar(text) => self.add_if_file(text, total),
            Value::List(items) => items.iter().try_for_each(|it| self.add_named(it, total)),
            Value::Map(entries) => entries.iter().try_for_each(|entry| {
                match &entry.value.value {
                    // The only key that names a directory.
                    Value::Scalar(text) if entry.key == "roots" && Path::new(text).is_dir() => {
                        self.add_files_in(Path::new(text), total)
                    }
                    _ => self.add_named(&entry.value, total),
                }
            }),
        }
    }

    /// Adds the file that a text names, and the files that its lines name, as in vegeta's targets.
    fn add_if_file(&mut self, text: &str, total: &mut usize) -> Result<(), BundleError> {
        let name = text.strip_prefix('@').unwrap_or(text);
        let path = Path::new(name);
        if self.files.contains_key(name) || !is_below(path) || !path.is_file() {
            return Ok(());
        }
        let contents = self.add(name, path, total)?;
        let contents = String::from_utf8_lossy(&contents);
        let lines = contents.lines().map(str::trim);
        let mut named = lines.filter(|line| line.starts_with('@'));
        named.try_for_each(|line| self.add_if_file(line, total))
    }

    /// Adds the files in a directory, but not those in its directories.
    fn add_files_in(&mut self, directory: &Path, total: &mut usize) -> Result<(), BundleError> {
        if !is_below(directory) {
            return Ok(());
        }
        let unreadable = |source| BundleError::Unreadable {
            path: directory.to_owned(),
            source,
        };
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if let Some(name) = path.to_str().filter(|_| path.is_file()) {
                self.add(name, &path, total)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, path: &Path, total: &mut usize) -> Result<Vec<u8>, BundleError> {
        let contents = fs::File::open(path).and_then(read_bounded);
        let contents = contents.map_err(|source| BundleError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        *total += contents.len();
        if *total > LARGEST {
            return Err(BundleError::TooLarge(*total));
        }
        let encoded = STANDARD.encode_to_string(&contents);
        self.files.insert(name.to_owned(), encoded);
        Ok(contents)
    }

    /// Returns the hash of everything that determines the run.
    pub(super) fn hash(&self) -> String {
        // The types in a bundle can always be serialized.
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        hex::encode(digest(&SHA256, &bytes))
    }

    /// Writes the files below `directory`, which must be the working directory, and returns the
    /// run.
    pub(super) fn unpack(&self, directory: &Path) -> Result<Run, BundleError> {
        for (name, contents) in &self.files {
            let path = Path::new(name);
            if !is_below(path) {
                return Err(BundleError::Path(name.clone()));
            }
            let contents = STANDARD.decode_to_vec(contents);
            let contents = contents.map_err(|_| BundleError::Base64(name.clone()))?;
            let path = directory.join(path);
            let place = path.parent().unwrap_or(directory);
            let written = fs::create_dir_all(place).and_then(|()| fs::write(&path, contents));
            written.map_err(|source| BundleError::Unwritable { path, source })?;
        }
        let lookup = |name: &str| self.variables.get(name).cloned().flatten();
        let path = Path::new(&self.plan);
        let planned: Plan = plan::read_with(path, &lookup).ok_or(BundleError::Plan)?;
        let refused = |error: &dyn std::fmt::Display| BundleError::Run(error.to_string());
        let thresholds = self.thresholds.iter().map(|text| Threshold::parse(text));
        let flags = settings::Flags {
            threads: self.threads,
            thresholds: thresholds
                .collect::<Result<_, _>>()
                .map_err(|error| refused(&error))?,
            allow: self.allow.clone(),
            tags: self.tags.clone(),
            seed: Some(self.seed),
        };
        plan::into_run(planned, path, &flags, self.seed).map_err(|error| refused(&error))
    }
}

fn line(threshold: &Threshold) -> String {
    format!("{}: {}", threshold.key, threshold.expression)
}

/// Returns whether a path stays below its directory.
fn is_below(path: &Path) -> bool {
    let mut parts = path.components();
    path.file_name().is_some()
        && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the files that a plan in this directory names.
    fn named(plan: &str) -> Vec<String> {
        let mut bundle = Bundle {
            plan: String::new(),
            files: BTreeMap::new(),
            variables: BTreeMap::new(),
            seed: 0,
            threads: None,
            thresholds: Vec::new(),
            allow: Vec::new(),
            tags: Vec::new(),
        };
        bundle
            .add_named(&tree::parse(plan).unwrap(), &mut 0)
            .unwrap();
        bundle.files.into_keys().collect()
    }

    #[test]
    fn files_below_the_directory_are_sent() {
        let plan = "{file: ./Cargo.toml, body: '@build.rs', name: src, ca: ../../Cargo.toml}";
        assert_eq!(named(plan), ["./Cargo.toml", "build.rs"]);
        let roots = named("{options: {roots: src/config}}");
        assert!(
            roots.contains(&"src/config/otlp.rs".to_owned()),
            "{roots:?}"
        );
        assert!(
            !roots
                .iter()
                .any(|name| name.starts_with("src/config/keys/")),
            "{roots:?}"
        );
    }
}
