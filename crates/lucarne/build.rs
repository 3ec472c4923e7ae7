//! Passes commit, date, features and target of this build to the program (`src/version.rs`).

use std::path::{Path, PathBuf};
use std::process::Command;

/// Value of anything that is not known: a source archive has no commit.
const UNKNOWN: &str = "unknown";

/// Seconds from 1970 to the year 10000.
const LAST_SECOND: u64 = 253_402_300_799;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let repository = Repository::of_workspace();
    let commit = repository.as_ref().and_then(Repository::commit);
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let epoch = epoch.or_else(|| repository.as_ref()?.commit_time());
    let seconds = epoch.and_then(|seconds| seconds.trim().parse::<u64>().ok());
    let seconds = seconds.filter(|seconds| *seconds <= LAST_SECOND);
    set("COMMIT", commit);
    set("DATE", seconds.map(date));
    set("FEATURES", Some(features()));
    set("TARGET", std::env::var("TARGET").ok());
    for file in repository.iter().flat_map(Repository::files_of_head) {
        println!("cargo:rerun-if-changed={}", file.display());
    }
}

fn set(name: &str, value: Option<String>) {
    let value = value.unwrap_or_else(|| UNKNOWN.to_owned());
    println!("cargo:rustc-env=LUCARNE_{name}={value}");
}

/// The Git repository of the workspace.
struct Repository {
    root: PathBuf,
}

impl Repository {
    /// Returns `None` if the workspace is not a repository. One above it does not count: the
    /// workspace may be a part of another project.
    fn of_workspace() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        root.join(".git").exists().then_some(Repository { root })
    }

    /// Returns the output of a Git command; `None` if the command fails.
    fn git(&self, args: &[&str]) -> Option<String> {
        let mut command = Command::new("git");
        // Set if the build runs in a hook of another repository.
        command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        let output = command.arg("-C").arg(&self.root).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let text = text.trim();
        (output.status.success() && !text.is_empty()).then(|| text.to_owned())
    }

    fn commit(&self) -> Option<String> {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Returns the time of the commit in Unix seconds.
    fn commit_time(&self) -> Option<String> {
        self.git(&["show", "--no-patch", "--format=%ct", "HEAD"])
    }

    /// Returns the files that change when HEAD moves. Only existing ones: Cargo takes a missing
    /// file for a changed one, and would run this program, and link, in every build.
    fn files_of_head(&self) -> Vec<PathBuf> {
        let branch = self.git(&["symbolic-ref", "--quiet", "HEAD"]);
        let names = ["HEAD", "logs/HEAD", "packed-refs"].map(str::to_owned);
        names
            .into_iter()
            .chain(branch)
            .filter_map(|name| self.git(&["rev-parse", "--git-path", &name]))
            .map(|path| self.root.join(path))
            .filter(|path| path.exists())
            .collect()
    }
}

/// Returns the enabled features, sorted and separated by commas.
fn features() -> String {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut features: Vec<String> = names
        .filter_map(|name| {
            let feature = name.strip_prefix("CARGO_FEATURE_")?;
            Some(feature.to_ascii_lowercase().replace('_', "-"))
        })
        .filter(|feature| feature != "default")
        .collect();
    features.sort();
    if features.is_empty() {
        "none".to_owned()
    } else {
        features.join(", ")
    }
}

/// Formats Unix seconds as a date (UTC).
fn date(seconds: u64) -> String {
    let (mut year, mut days) = (1970, seconds / 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}
