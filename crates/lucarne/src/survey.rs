//! Warnings about valid settings that may cause problems after the log is in use.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{Roots, verify_checkpoint};
use lucarne_http::{Validity, tls_hosts};
use lucarne_log::{
    Fatal, Instances, IntendedUse, KnownCheckpoint, KnownCheckpoints, Log, SourceResponse,
};
use lucarne_storage::{AssetError, Assets, Lease, Lock, LockError, PosixAssets};
use tokio::task::JoinSet;

use crate::config::{Config, DataPlace, LockPlace, LogSettings, Report, Severity, rfc3339};
use crate::files::is_absent;
use crate::inception::{self, Birth};
use crate::roots::has_merge_delay_monitor;
use crate::{open, tls};

/// CAs issue about 250 certificates per second worldwide, each logged two or three times. A log
/// with a lower rate must refuse some of them.
const WORLD_ENTRIES_PER_SECOND: u64 = 500;
/// Period above which the wait for an SCT is unusually long.
const LONG_PERIOD: Duration = Duration::from_secs(1);
/// Half of the shortest maximum merge delay of a log policy.
const LONG_AGE: Duration = Duration::from_secs(30);
/// Reason why `check` does not read the data of a running log.
const NOT_COMPARED: &str =
    "Lock, journal and data are not compared while the log runs: see its /health";
/// Approximate growth of a log on a busy day, in bytes.
const LITTLE_SPACE: u64 = 10 << 30;

/// Checks one log without starting it.
pub(crate) fn log(settings: &LogSettings, roots: &Roots, now_ms: u64, report: &mut Report) {
    window(settings, now_ms, report);
    rounds(settings, report);
    if settings.roots.ccadb.is_some() && !has_merge_delay_monitor(roots) {
        report.warning(
            settings.line,
            settings.key_path("extraroots"),
            "Google's Merge Delay Monitor Root is not among the roots: Chrome's log policy \
             requires this root, and CCADB does not list it; add the root with `extraroots`",
        );
    }
    let metadata = &settings.metadata;
    if metadata.intended_use == IntendedUse::Production && metadata.operator.is_none() {
        report.warning(
            None,
            "operator",
            "an application to a browser's log list requires the operator's name, e-mail \
             addresses and `/operator.json`: set `operator`",
        );
    }
    let url = &settings.submission.value.url;
    if url.starts_with("http://") && !is_local(settings.submission.value.authority()) {
        report.warning(
            settings.submission.line,
            settings.key_path("submissionprefix"),
            "clients will not submit over http://, which is for tests and private use",
        );
    }
}

fn is_local(authority: &str) -> bool {
    ["localhost", "127.", "[::1]"]
        .iter()
        .any(|local| authority.starts_with(local))
}

fn window(settings: &LogSettings, now_ms: u64, report: &mut Report) {
    let policy = &settings.policy;
    match (policy.not_after_start, policy.not_after_limit) {
        (Some(_), Some(limit)) if limit <= now_ms => {
            let end = rfc3339(limit);
            let message = if settings.to_log_config().retired(now_ms) {
                format!("the window ended on {end}: the log is read-only, submissions get 410 Gone")
            } else {
                format!("the window ended on {end}: only expired certificates fit into it")
            };
            report.warning(settings.line, settings.key_path("notafterlimit"), message);
        }
        (Some(_), Some(_)) => {}
        (start, _) => {
            let (key, message) = match start {
                Some(_) => ("notafterlimit", "the notAfter window has no end"),
                None if policy.not_after_limit.is_some() => {
                    ("notafterstart", "the notAfter window has no start")
                }
                None => ("notafterstart", "there is no notAfter window"),
            };
            let message = format!(
                "{message}: suitable for tests and private use, but no public log list accepts it"
            );
            report.warning(settings.line, settings.key_path(key), message);
        }
    }
}

fn rounds(settings: &LogSettings, report: &mut Report) {
    let sequencer = &settings.rounds.sequencer;
    let period = sequencer.period;
    let line = |key| settings.written.line(key);
    if period > LONG_PERIOD {
        let message = format!(
            "{} ms: submitters wait up to this time for each SCT; usual values are at most 1000 ms",
            period.as_millis()
        );
        report.warning(line("period"), settings.key_path("period"), message);
    }
    let entries = sequencer.pool_size as u64;
    let per_second = entries * 1000 / (period.as_millis() as u64).max(1);
    let place = (line("poolsize"), settings.key_path("poolsize"));
    if per_second < WORLD_ENTRIES_PER_SECOND {
        let message = format!(
            "{entries} entries each {} ms are at most {per_second} entries/s; a public log needs \
             {WORLD_ENTRIES_PER_SECOND}",
            period.as_millis()
        );
        report.warning(place.0, place.1, message);
    } else if entries >= u64::from(u32::MAX) {
        let message = "0 means unlimited: under overload, memory grows until the process is killed";
        report.warning(place.0, place.1, message);
    }
    if sequencer.max_checkpoint_age > LONG_AGE {
        let message =
            "an idle log's checkpoint gets older than half the maximum merge delay of 60 s";
        report.warning(None, settings.key_path("checkpointinterval"), message);
    }
}

/// Checks the TLS certificate: its validity, and the host names of all logs.
pub(crate) fn certificate(config: &Config, now_ms: u64, report: &mut Report) {
    let Some(files) = &config.tls else {
        return;
    };
    let (line, key) = (files.certificate.line, "tls.certificate");
    // Errors are already in the report, because the configuration includes the files.
    let tls = tls::load(&files.certificate.value, &files.key.value).ok();
    let Some(certificate) = tls.and_then(|tls| tls.certificate()) else {
        return;
    };
    if certificate.validity(now_ms) != Validity::Valid {
        report.warning(line, key, certificate.describe(now_ms));
    }
    for log in &config.logs {
        for host in tls_hosts(&log.to_log_config()) {
            if !certificate.covers(host) {
                let message = format!(
                    "the certificate is not for {host}: clients of log `{}` refuse it, unless a \
                     proxy in front serves another certificate",
                    log.shortname.value
                );
                report.warning(line, key, message);
            }
        }
    }
}

/// Checks the places of all logs' data.
pub(crate) fn places(config: &Config, report: &mut Report) {
    if let Some(socket) = &config.handover
        && let Some(directory) = socket.value.parent()
        && !directory.as_os_str().is_empty()
        && !directory.is_dir()
    {
        let message = format!(
            "the directory of {} does not exist: the server requires it to start \
             (`RuntimeDirectory=` in a unit creates it)",
            socket.value.display()
        );
        report.warning(socket.line, "handover", message);
    }
    let lock = match &config.checkpoints.value {
        LockPlace::Sqlite(path) => device(path),
        _ => None,
    };
    for log in &config.logs {
        let Some(directory) = log.data.value.directory() else {
            continue;
        };
        if lock.is_some() && lock == device(directory) {
            let message = format!(
                "the lock database {} is on the same file system as {}: a restored snapshot or \
                 backup would roll back both, and the log could sign a fork: put the database on \
                 another file system",
                config.checkpoints.value,
                directory.display()
            );
            report.warning(config.checkpoints.line, "checkpoints", message);
        }
        if let Some(free) = free(directory).filter(|free| *free < LITTLE_SPACE) {
            let message = format!(
                "only {} MiB are free in {}",
                free >> 20,
                directory.display()
            );
            report.warning(log.data.line, log.key_path("localdirectory"), message);
        }
    }
    for listen in &config.listen {
        let addresses = listen.value.addresses.iter();
        let failures = addresses.map(|address| TcpListener::bind(address).err());
        let failures: Option<Vec<_>> = failures.collect();
        let Some(error) = failures.and_then(|failures| failures.into_iter().next()) else {
            continue;
        };
        let (line, address) = (listen.line, &listen.value);
        match error.kind() {
            // The service may listen on this port: its unit has CAP_NET_BIND_SERVICE.
            ErrorKind::PermissionDenied => {}
            ErrorKind::AddrInUse => {
                let message = format!(
                    "cannot listen on {address} now: the address is in use, perhaps by a running \
                     Lucarne"
                );
                report.warning(line, "listen", message);
            }
            _ => {
                let message = format!("cannot listen on {address}: {error}");
                report.add(Severity::Problem, line, "listen", message);
            }
        }
    }
}

/// Returns the file system of `path` or of its closest existing parent.
fn device(path: &Path) -> Option<u64> {
    let exists = path.ancestors().find(|path| path.exists())?;
    Some(exists.metadata().ok()?.dev())
}

fn free(path: &Path) -> Option<u64> {
    let exists = path.ancestors().find(|path| path.exists())?;
    let file_system = rustix::fs::statvfs(exists).ok()?;
    Some(file_system.f_bavail * file_system.f_frsize)
}

/// An opened bucket; `None` for a directory or after an error.
type Opened = Option<Arc<dyn Assets>>;

/// The buckets that are being opened, each with the index of its log.
type Opening = JoinSet<(usize, Result<Arc<dyn Assets>, AssetError>)>;

/// Checks the lock and the data: whether they are available, whether each log exists, and whether
/// it would start. Writes nothing to the logs.
pub(crate) async fn stores(config: &Config, report: &mut Report) {
    let opening = open_buckets(config);
    let lock = open::lock(&config.checkpoints.value, Arc::new(())).await;
    let buckets = opened_buckets(opening, config, report).await;
    let lock_failed = |error: &LockError, report: &mut Report| {
        let line = config.checkpoints.line;
        report.add(of_lock(error), line, "checkpoints", error.to_string());
    };
    let lock = match lock {
        Ok(lock) => lock,
        Err(error) => return lock_failed(&error, report),
    };
    if let Err(error) = lock.check().await {
        lock_failed(&error, report);
    }
    if let Some(doubt) = lock.doubt() {
        report.warning(config.checkpoints.line, "checkpoints", doubt);
    }
    let mut asking = ask_outside(config);
    let mut not_created = Vec::new();
    for (log, bucket) in config.logs.iter().zip(buckets) {
        match lock.load(&log.key.log_id().0).await {
            Ok(Some(checkpoint)) => existing(log, &*lock, &checkpoint, bucket, report).await,
            Ok(None) => not_created.extend(absent(log, &config.checkpoints.value, report).await),
            Err(error) => {
                report.add(
                    of_lock(&error),
                    log.line,
                    log.key_path(""),
                    error.to_string(),
                );
            }
        }
    }
    // `serve` does not start if all logs are missing.
    let severity = if not_created.len() == config.logs.len() {
        Severity::Problem
    } else {
        Severity::LogProblem
    };
    for (log, key, refusal) in not_created {
        report.add(severity, log.line, log.key_path(key), refusal);
    }
    while let Some(asked) = asking.join_next().await {
        if let Ok((index, responses)) = asked {
            known(&config.logs[index], responses, &*lock, report).await;
        }
    }
    lock.close().await;
}

/// Begins to open the buckets of all logs.
fn open_buckets(config: &Config) -> Opening {
    let mut opening = JoinSet::new();
    for (index, log) in config.logs.iter().enumerate() {
        if let DataPlace::Bucket(_) = log.data.value {
            let place = log.data.value.clone();
            opening.spawn(async move { (index, open::assets(&place, Arc::new(())).await) });
        }
    }
    opening
}

/// Waits for the buckets of all logs, and reports errors.
async fn opened_buckets(opening: Opening, config: &Config, report: &mut Report) -> Vec<Opened> {
    let mut buckets: Vec<Opened> = vec![None; config.logs.len()];
    for (index, opened) in opening.join_all().await {
        let log = &config.logs[index];
        match opened {
            Ok(assets) => buckets[index] = Some(assets),
            Err(error) => {
                let (key, severity) = (log.key_path(log.data.value.key()), of_data(&error));
                report.add(severity, log.data.line, key, error.to_string());
            }
        }
    }
    buckets
}

/// Returns the severity of an error of one log's data.
fn of_data(error: &AssetError) -> Severity {
    match error {
        AssetError::Unavailable { .. } | AssetError::Silent { .. } => Severity::Unavailable,
        _ => Severity::LogProblem,
    }
}

/// Returns the severity of an error of the lock, which all logs share.
fn of_lock(error: &LockError) -> Severity {
    match error {
        LockError::Failed { .. } => Severity::Unavailable,
        _ => Severity::Problem,
    }
}

/// Returns the severity of an error that stops a log.
fn of_session(fatal: &Fatal) -> Severity {
    if fatal.is_passing() {
        Severity::Unavailable
    } else {
        Severity::LogProblem
    }
}

/// Reads the outside checkpoints of all logs concurrently. Each result has the log's index.
fn ask_outside(config: &Config) -> JoinSet<(usize, Vec<SourceResponse>)> {
    let mut asking = JoinSet::new();
    for (index, log) in config.logs.iter().enumerate() {
        let places = log.known_places();
        asking.spawn(async move { (index, places.ask().await) });
    }
    asking
}

/// Compares a log with its outside checkpoints.
async fn known(
    log: &LogSettings,
    responses: Vec<SourceResponse>,
    lock: &dyn Lock,
    report: &mut Report,
) {
    let (line, key) = (log.line, log.key_path("known_checkpoints"));
    let settings = log.to_log_config();
    let mut known = Vec::new();
    for response in responses {
        let place = response.place.clone();
        match KnownCheckpoint::verify(response, &settings) {
            Ok(checkpoint) => known.push(checkpoint),
            Err(problem) => report.warning(line, key.as_str(), format!("{place}: {problem}")),
        }
    }
    // An error of the data is already in the report.
    let Ok(assets) = open::watched_assets(&log.data.value).await else {
        return;
    };
    if known.is_empty() {
        return;
    }
    match lucarne_log::hold_against(&settings, assets, lock, &known).await {
        Ok(against) => {
            for error in against {
                let severity = if error.refuses() {
                    Severity::LogProblem
                } else {
                    Severity::Warning
                };
                report.add(severity, line, key.as_str(), error.to_string());
            }
        }
        Err(error) => {
            let message = format!("cannot compare with the checkpoints known outside: {error}");
            report.warning(line, key, message);
        }
    }
}

/// Checks a log that the lock contains, as a start of the log does.
async fn existing(
    log: &LogSettings,
    lock: &dyn Lock,
    checkpoint: &[u8],
    bucket: Opened,
    report: &mut Report,
) {
    let (line, key) = (log.data.line, log.key_path(log.data.value.key()));
    let directory_problem = log.data.value.directory().and_then(directory_problem);
    if let Some(problem) = &directory_problem {
        report.add(Severity::LogProblem, line, key.as_str(), problem);
    }
    match verify_checkpoint(checkpoint, &log.origin, log.key.public_key_spki()) {
        Ok((_, signed_ms)) => clock(log, signed_ms, report),
        Err(error) => {
            let message = format!(
                "the lock's checkpoint for this key is not a checkpoint of `{}`: {error}; check \
                 whether the prefix was changed",
                log.origin
            );
            let key = log.key_path("submissionprefix");
            return report.add(Severity::LogProblem, log.submission.line, key, message);
        }
    }
    if log.instances.is_none()
        && let Some(address) = living_leader(log, lock).await
    {
        let message = format!(
            "the instance at {address} leads this log, and this configuration has no `instances`: \
             each process would stop the other. Configure `instances`, or stop the other instances"
        );
        report.warning(log.line, log.key_path("instances"), message);
    }
    if directory_problem.is_some() {
        return;
    }
    let settings = log.to_log_config();
    let assets: Arc<dyn Assets> = match (log.data.value.directory(), bucket) {
        (Some(directory), _) => match PosixAssets::examine(directory) {
            Ok(assets) => Arc::new(assets),
            Err(error @ AssetError::InUse { .. }) => {
                return report.warning(line, key, format!("{error}. {NOT_COMPARED}"));
            }
            Err(error) => return report.add(of_data(&error), line, key, error.to_string()),
        },
        // A bucket is not locked. The dedup index shows whether a process runs the log.
        (None, Some(_)) if Log::is_in_use(&settings).await => {
            let message = format!(
                "the dedup index in {} is in use by another process, which runs this log. \
                 {NOT_COMPARED}",
                settings.cache.display()
            );
            return report.warning(line, key, message);
        }
        (None, Some(bucket)) => bucket,
        // An error of the bucket is already in the report.
        (None, None) => return,
    };
    if let Err(fatal) = lucarne_log::examine(&settings, assets, lock).await {
        report.add(of_session(&fatal), line, key, fatal.to_string());
    }
}

/// Returns the address of the instance that leads the log, if the lease changes now. A lease that a
/// killed instance left does not change, even if a server without `instances` commits to the lock.
async fn living_leader(log: &LogSettings, lock: &dyn Lock) -> Option<String> {
    let id = log.key.log_id().0;
    let look = async || {
        let (lease, checkpoint) = (Lease::load(lock, &id).await, lock.load(&id).await);
        Some((lease.ok()??, checkpoint.ok()??))
    };
    let (lease, checkpoint) = look().await?;
    lease.holder?;
    // An idle leader renews its lease within the first pause. A leader that commits renews it
    // within four pauses.
    for _ in 0..5 {
        tokio::time::sleep(Instances::LEASE).await;
        let (now, committed) = look().await?;
        if now != lease {
            return now.holder.map(|_| now.address);
        }
        if committed == checkpoint {
            return None;
        }
    }
    None
}

/// Reports a clock with which the log does not sign, and warns if it signs only with
/// `--confirm-clock`.
fn clock(log: &LogSettings, signed_ms: u64, report: &mut Report) {
    let now_ms = log.clock.now_ms();
    if log.to_log_config().retired(now_ms) {
        return;
    }
    let (line, key) = (log.line, log.key_path(""));
    if let Err(behind) = lucarne_log::next_timestamp(now_ms, signed_ms) {
        report.add(Severity::LogProblem, line, key, behind.to_string());
    } else if let Err(unconfirmed) = lucarne_log::believable(now_ms, signed_ms) {
        report.warning(line, key, unconfirmed.to_string());
    }
}

fn directory_problem(directory: &Path) -> Option<String> {
    let shown = directory.display();
    if let Err(error) = directory.metadata()
        && !is_absent(directory)
    {
        return Some(format!("{shown} cannot be accessed: {error}"));
    }
    if !directory.is_dir() {
        return Some(format!(
            "{shown} does not exist, but the log does: mount or restore the directory"
        ));
    }
    let writable = rustix::fs::access(directory, rustix::fs::Access::WRITE_OK);
    writable
        .is_err()
        .then(|| format!("{shown} cannot be written"))
}

/// A missing log, the configuration key at fault, and the reason.
type NotCreated<'a> = (&'a LogSettings, &'static str, String);

/// Checks whether `serve` would create a log that is missing in the lock.
async fn absent<'a>(
    log: &'a LogSettings,
    lock: &LockPlace,
    report: &mut Report,
) -> Option<NotCreated<'a>> {
    if let Err(known) = Log::unseen(&log.to_log_config()).await {
        return Some((log, "cache", known.to_string()));
    }
    match inception::birth(log) {
        Birth::Today => {
            if let Err(error) = inception::is_new(log, lock).await {
                return Some((log, log.data.value.key(), format!("{error:#}")));
            }
            let message = "is today and the log does not exist: `serve` will create it";
            report.warning(log.line, log.key_path("inception"), message);
            None
        }
        other => Some((log, "inception", other.refusal(log, lock))),
    }
}
