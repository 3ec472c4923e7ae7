//! Fuzzing on stable Rust. libFuzzer needs coverage from an LLVM pass that any rustc can run, so
//! neither cargo-fuzz nor a nightly compiler is needed.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::root;
use crate::step::{cargo, check};

/// Total time of all targets without `--seconds`.
const SHARED: Duration = Duration::from_secs(60);

/// Variable that selects the target.
const TARGET: &str = "LUCARNE_FUZZ_TARGET";

/// Counters and comparisons for libFuzzer, as clang's `-fsanitize=fuzzer` sets them.
const INSTRUMENTATION: &str = "--cfg fuzzing \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Builds the targets, and fuzzes the named targets, or all targets, each for the same time.
pub(crate) fn run(each: Option<Duration>, named: &[String]) -> Result<()> {
    let targets = choose(all_targets()?, named)?;
    let binary = build()?;
    let corpus = root().join("fuzz/corpus");
    let seeds = corpus.join("seeds");
    check(cargo("run --quiet --package lucarne-fuzz --bin fuzz-seeds --").arg(&seeds))?;

    let workers = thread::available_parallelism().map_or(1, usize::from);
    let rounds = targets.len().div_ceil(workers).max(1) as u32;
    let each = each.unwrap_or(SHARED / rounds).max(Duration::from_secs(1));
    println!(
        "{} targets, {} s each, {workers} at a time",
        targets.len(),
        each.as_secs()
    );

    let queue = Mutex::new(VecDeque::from(targets));
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(target) = lock(&queue).pop_front() {
                    let outcome = fuzz(&binary, &target, &corpus, each);
                    lock(&failed).extend(outcome.err());
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    for error in &failed {
        eprintln!("{error:#}\n");
    }
    match failed.len() {
        0 => Ok(()),
        count => bail!("{count} fuzz target(s) failed"),
    }
}

fn all_targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/targets");
    let files = fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut names = Vec::new();
    for file in files {
        let path = file?.path();
        let stem = path
            .file_stem()
            .filter(|_| path.extension().is_some_and(|end| end == "rs"));
        names.extend(stem.map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn choose(all: Vec<String>, named: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!(
            "unknown fuzz target `{unknown}`: use one of {}",
            all.join(", ")
        );
    }
    Ok(if named.is_empty() {
        all
    } else {
        named.to_vec()
    })
}

/// Builds the program for libFuzzer, which has all targets, and returns its path.
fn build() -> Result<PathBuf> {
    require_cpp_compiler()?;
    let host = host()?;
    let mut build = cargo("build --profile fuzz --package lucarne-fuzz --features libfuzzer");
    build.args(["--bin", "fuzz", "--locked", "--target-dir", "fuzz/target"]);
    // With an explicit target, cargo keeps the instrumentation out of build scripts and procedural
    // macros, which would not link with it.
    build.args(["--target", &host]);
    build
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", INSTRUMENTATION);
    check(&mut build)?;
    Ok(root().join("fuzz/target").join(host).join("fuzz/fuzz"))
}

/// Fails with installation instructions if there is no C++ compiler.
fn require_cpp_compiler() -> Result<()> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        bail!(
            "fuzzing needs a C++ compiler for libFuzzer, and `{compiler}` cannot be started: \
             install one (Debian and Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; \
             macOS: xcode-select --install) or name one in CXX"
        );
    }
    Ok(())
}

/// Returns the target triple for which rustc builds by default.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("-vV")
        .output()
        .context("starting `rustc -vV`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("`rustc -vV` does not name its host")?
        .to_owned())
}

/// Runs one target. The output of the target goes to a file; this function prints a summary.
fn fuzz(binary: &Path, target: &str, corpus: &Path, time: Duration) -> Result<()> {
    let (found, seeds) = (corpus.join(target), corpus.join("seeds").join(target));
    let artifacts = root().join("fuzz/artifacts");
    for folder in [&found, &seeds, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let log = artifacts.join(format!("{target}.log"));
    let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    let status = Command::new(binary)
        .env(TARGET, target)
        .arg(format!("-max_total_time={}", time.as_secs()))
        .arg(format!(
            "-artifact_prefix={}/{target}-",
            artifacts.display()
        ))
        .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .args([found, seeds])
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .with_context(|| format!("starting {}", binary.display()))?;

    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if !status.success() {
        bail!(
            "fuzz target {target} failed ({status}):\n{}\nTo run it on that input again:\n  {TARGET}={target} {} {}",
            end_of(&text),
            binary.display(),
            after(&text, "Test unit written to ").unwrap_or("<no input was written>"),
        );
    }
    println!(
        "{target:>18}: {:>9} inputs, {:>5} edges covered",
        after(&text, "stat::number_of_executed_units:").unwrap_or("?"),
        after(&text, " cov: ").unwrap_or("?"),
    );
    Ok(())
}

/// Returns the word after the last occurrence of `key`.
fn after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.rsplit_once(key)?.1.split_whitespace().next()
}

/// Returns the end of a failed target's output: the panic, the stack, the input.
fn end_of(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let start = lines.iter().position(|line| line.contains("panicked at"));
    let start = start.unwrap_or(lines.len().saturating_sub(40));
    lines[start..]
        .iter()
        .take(60)
        .map(|line| format!("  {line}\n"))
        .collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
