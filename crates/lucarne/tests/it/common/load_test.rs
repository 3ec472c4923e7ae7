//! `lucarne load` as a process, and its summary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use lucarne_mint::testing::once_per_run;
use lucarne_testkit::{Launch, LogUnderTest, TempDir, temp_dir};
use serde_json::Value;

use super::{LUCARNE, pki};

/// Returns a directory of authorities, which `lucarne ca new` wrote once per run of tests.
pub(crate) fn authorities() -> &'static Path {
    static OF_PROCESS: OnceLock<(Option<TempDir>, PathBuf)> = OnceLock::new();
    let write = |directory: &Path| {
        let (code, output) = super::lucarne(directory, &["ca", "new", "ca"]);
        assert_eq!(code, 0, "{output}");
    };
    let (_, path) = OF_PROCESS.get_or_init(|| {
        if let Some(directory) = once_per_run("authorities", write) {
            return (None, directory.join("ca"));
        }
        let directory = temp_dir();
        write(directory.path());
        let path = directory.path().join("ca");
        (Some(directory), path)
    });
    path
}

/// Returns the roots (PEM) of these authorities and of the test authorities.
pub(crate) fn roots() -> String {
    let theirs = std::fs::read_to_string(authorities().join("roots.pem")).unwrap();
    theirs + &pki().root.certificate_pem()
}

/// Creates a log that accepts these roots.
pub(crate) fn log_for_load(settings: &str) -> LogUnderTest {
    LogUnderTest::create(LUCARNE, &roots(), settings).unwrap()
}

/// Returns the public key in base64, as in log lists.
pub(crate) fn base64_key(log: &LogUnderTest) -> String {
    base64_simd::STANDARD.encode_to_string(log.public_key())
}

/// Runs `lucarne load` with these arguments to its end, in a new directory, with `--no-ui` and
/// `--summary summary.json`.
pub(crate) fn load<S: AsRef<str>>(args: &[S]) -> LoadTest {
    LoadTest::run(temp_dir(), args)
}

/// A finished load test.
pub(crate) struct LoadTest {
    /// The exit code.
    pub(crate) code: i32,
    /// The whole output.
    pub(crate) said: String,
    directory: TempDir,
}

/// Runs `lucarne load ct-write` against the log with this URL, origin and key, with more flags.
pub(crate) fn ct_write(url: &str, origin: &str, key: &str, more: &[&str]) -> LoadTest {
    let roots = authorities().display().to_string();
    let target = [
        "--log-url",
        url,
        "--origin",
        origin,
        "--log-public-key",
        key,
    ];
    load(&[&["ct-write", "--roots", &roots], &target[..], more].concat())
}

impl LoadTest {
    /// Runs `lucarne load` with these arguments in this directory.
    pub(crate) fn run<S: AsRef<str>>(directory: TempDir, args: &[S]) -> Self {
        let mut process = Launch::new(LUCARNE)
            .arg("load")
            .args(args.iter().map(|arg| arg.as_ref().to_owned()))
            .args(["--no-ui", "--summary", "summary.json"])
            .directory(directory.path())
            .spawn()
            .unwrap();
        let status = process.wait(Duration::from_secs(120)).unwrap();
        LoadTest {
            code: status.code().unwrap_or(-1),
            said: process.output(),
            directory,
        }
    }

    /// The directory of the run.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a file that the run wrote.
    pub(crate) fn file(&self, name: &str) -> String {
        let path = self.path().join(name);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.said))
    }

    /// Returns the content of `summary.json`.
    pub(crate) fn summary(&self) -> Value {
        serde_json::from_str(&self.file("summary.json")).unwrap()
    }

    /// Returns the names of failed checks and the kinds of errors, without the kinds that only
    /// report a failed check.
    pub(crate) fn findings(&self) -> BTreeSet<String> {
        let summary = self.summary();
        let failed = |check: &Value| check["fails"].as_u64() > Some(0);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let checks = rows(&summary, "checks").into_iter().filter(failed);
        let checks = checks.map(|check| text(&check["name"]));
        let errors = rows(&summary, "errors").into_iter();
        let errors = errors
            .map(|error| text(&error["kind"]))
            .filter(|kind| !["status", "checkpoint"].contains(&kind.as_str()));
        checks.chain(errors).collect()
    }

    /// Returns the crossed thresholds as `metric: expression`.
    pub(crate) fn crossed(&self) -> BTreeSet<String> {
        let summary = self.summary();
        let crossed = |row: &Value| row["passed"] == false;
        let text = |row: Value| {
            let (metric, expression) = (&row["metric"], &row["expression"]);
            format!(
                "{}: {}",
                metric.as_str().unwrap(),
                expression.as_str().unwrap()
            )
        };
        rows(&summary, "thresholds")
            .into_iter()
            .filter(crossed)
            .map(text)
            .collect()
    }
}

/// Returns a list in the summary.
pub(crate) fn rows(summary: &Value, name: &str) -> Vec<Value> {
    let list = summary[name].as_array();
    list.unwrap_or_else(|| panic!("no list {name} in {summary:#}"))
        .clone()
}
