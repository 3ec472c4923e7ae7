//! One log under `logs:`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use lucarne_ct::{CcadbProgramme, LogKey, Policy, Require};
use lucarne_log::{Clock, LogConfig};

use super::distinct::{Claimant, Claims};
use super::report::Report;
use super::section::{Located, Reader, Section, join};
use super::tree::Node;
use super::values::Prefix;
use super::{distinct, key, keys, values};

/// One log as the operator wants it.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Where the log begins in the file.
    pub line: Option<usize>,
    /// Its name in metrics and messages.
    pub shortname: Located<String>,
    /// Free text for `log.v3.json`.
    pub description: String,
    /// The day on which `serve` may create the log.
    pub inception: Option<Located<Date>>,
    /// The checkpoint origin.
    pub origin: String,
    /// Where clients submit.
    pub submission: Located<Prefix>,
    /// Where clients read.
    pub monitoring: Located<Prefix>,
    /// The file of the key.
    pub secret: Located<PathBuf>,
    /// The key itself.
    pub key: Arc<LogKey>,
    /// Directory for what can be lost: dedup index, CCADB roots.
    pub cache: Located<PathBuf>,
    /// Directory of the log's data.
    pub directory: Located<PathBuf>,
    /// Where accepted roots come from.
    pub roots: RootSources,
    /// Shortest distance between rounds.
    pub period: Located<Duration>,
    /// Most entries waiting for a round.
    pub pool_size: Located<usize>,
    /// Longest age of an idle log's checkpoint.
    pub checkpoint_interval: Duration,
    /// Memory for tiles that are read, in bytes.
    pub read_cache: u64,
    /// What the log accepts.
    pub policy: Policy,
}

/// Where accepted roots come from; all sources are joined.
#[derive(Clone, Debug, Default)]
pub struct RootSources {
    /// `roots`: a PEM file.
    pub pem: Option<Located<PathBuf>>,
    /// `extraroots`: another.
    pub extra: Option<Located<PathBuf>>,
    /// `ccadbroots` and `rootsurl`.
    pub ccadb: Option<Located<Ccadb>>,
}

/// The Common CA Database's list of roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ccadb {
    /// URL of the CSV (`http`, `https`, `file`), or a path.
    pub source: String,
    /// Which of its roots are taken.
    pub programme: CcadbProgramme,
}

/// CCADB's reports: roots that some program includes, and those plus the ones
/// that apply.
const CCADB_TRUSTED: &str =
    "https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesIncludedByRSReportCSV";
const CCADB_TESTING: &str =
    "https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesInclusionReportCSV";

/// Shortest distance between rounds if `period` is not given.
pub(super) const PERIOD: Duration = Duration::from_millis(200);
/// Pool if `poolsize` is not given.
pub(super) const POOL_SIZE: usize = 4000;
/// Age of an idle checkpoint if `checkpointinterval` is not given.
pub(super) const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);
/// Bytes of tiles in memory if `readcache` is not given.
pub(super) const READ_CACHE: u64 = 16 << 20;

impl LogSettings {
    /// `logs[name].key`, for messages.
    pub(crate) fn key_path(&self, key: &str) -> String {
        match self.line {
            Some(_) => join(&format!("logs[{}]", self.shortname.value), key),
            None => super::flags::name_of(key),
        }
    }

    /// Where CCADB roots are kept between starts.
    pub(crate) fn ccadb_file(&self) -> PathBuf {
        self.cache.value.join("ccadb.pem")
    }

    /// What the `log` crate needs to know.
    pub(crate) fn to_log_config(&self) -> LogConfig {
        LogConfig {
            shortname: self.shortname.value.clone(),
            description: self.description.clone(),
            origin: self.origin.clone(),
            submission_prefix: self.submission.value.url.clone(),
            monitoring_prefix: self.monitoring.value.url.clone(),
            key: Arc::clone(&self.key),
            policy: self.policy.clone(),
            period: self.period.value,
            pool_size: self.pool_size.value,
            checkpoint_interval: self.checkpoint_interval,
            cache: self.cache.value.join("dedup"),
            read_cache_bytes: self.read_cache,
            clock: Clock::system(),
        }
    }
}

/// Reads one log. All its problems are reported; one that cannot be used even
/// for looking further is `None`.
pub(super) fn read(
    index: usize,
    node: &Node,
    defaults: Option<Section<'_>>,
    directory: &Path,
    claims: &mut Claims,
    report: &mut Report,
) -> Option<LogSettings> {
    let path = format!("logs[{}]", name_or_index(index, node));
    let section = Section::open(node, &path, &keys::log(), report)?;
    let mut reader = Reader::new(section.or(defaults), &path, directory, report);
    let shortname = reader.parse("shortname", values::shortname);
    let shortname = reader.required("shortname", shortname, "rome2026h1");
    let submission = reader.parse("submissionprefix", values::prefix);
    let submission = reader.required("submissionprefix", submission, "https://ct.example/2026h1/");
    let monitoring = reader
        .parse("monitoringprefix", values::prefix)
        .or_else(|| submission.clone());
    if let Some(submission) = &submission {
        check_name(&mut reader, submission.value.origin());
    }
    let secret = secret(&mut reader);
    let data = reader.path("localdirectory");
    let data = reader.required("localdirectory", data, "/var/lib/lucarne/rome2026h1");
    let cache = cache(&mut reader, data.as_ref());
    let inception = reader.parse("inception", values::date);
    let description = reader.text("description").map(|text| text.value.to_owned());
    let rounds = rounds(&mut reader);
    let roots = roots(&mut reader);
    let policy = policy(&mut reader);
    let who = Claimant {
        index,
        path: &path,
        line: node.line,
    };
    let mut claim = |what, key, value: Option<(String, Option<usize>)>| {
        if let Some(value) = value {
            claims.claim(who, (what, key), value, report);
        }
    };
    let origin = |prefix: &Located<Prefix>| (prefix.value.origin().to_owned(), prefix.line);
    let place = |path: &Located<PathBuf>| (distinct::real(&path.value), path.line);
    let id = |(secret, key): &(Located<PathBuf>, Arc<LogKey>)| {
        (hex::encode(key.log_id().0), secret.line)
    };
    claim(
        "name",
        "shortname",
        shortname.clone().map(|name| (name.value, name.line)),
    );
    claim("key", "secret", secret.as_ref().map(id));
    claim(
        "prefix",
        "submissionprefix",
        submission.as_ref().map(origin),
    );
    claim(
        "prefix",
        "monitoringprefix",
        monitoring.as_ref().map(origin),
    );
    claim("directory", "localdirectory", data.as_ref().map(place));
    claim("directory", "cache", cache.as_ref().map(place));
    let (secret, key) = secret?;
    let submission = submission?;
    Some(LogSettings {
        line: Some(node.line),
        shortname: shortname?,
        description: description.unwrap_or_else(|| submission.value.origin().to_owned()),
        inception,
        origin: submission.value.origin().to_owned(),
        monitoring: monitoring?,
        submission,
        secret,
        key,
        cache: cache?,
        directory: data?,
        roots,
        period: rounds.period,
        pool_size: rounds.pool_size,
        checkpoint_interval: rounds.checkpoint_interval,
        read_cache: rounds.read_cache,
        policy,
    })
}

/// The log's short name, or else its place in the list: for messages.
fn name_or_index(index: usize, node: &Node) -> String {
    use super::tree::Value;
    let name = match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == "shortname"),
        _ => None,
    };
    match name.map(|entry| &entry.value.value) {
        Some(Value::Scalar(name)) => name.clone(),
        _ => index.to_string(),
    }
}

/// Sunlight's deprecated `name` must be what it would be anyway.
fn check_name(reader: &mut Reader<'_, '_>, origin: &str) {
    if let Some(name) = reader.text("name")
        && name.value != origin
    {
        let message = format!(
            "`{}` is not the submission prefix without its scheme, `{origin}`: a log's name \
                 is its origin; remove this key, or correct `submissionprefix`",
            name.value
        );
        reader.problem(name.line, "name", message);
    }
}

/// Reads `secret` (or `seed`, as it was called) and the key in that file.
fn secret(reader: &mut Reader<'_, '_>) -> Option<(Located<PathBuf>, Arc<LogKey>)> {
    let mut name = "secret";
    let mut file = reader.path(name);
    if file.is_none()
        && let Some(old) = reader.path("seed")
    {
        name = "seed";
        reader.warning(old.line, name, "is an old name for `secret`");
        file = Some(old);
    }
    let file = reader.required("secret", file, "rome2026h1.seed.bin")?;
    if let Some(others) = key::readable_by_others(&file.value) {
        let message = format!(
            "{} can be read by {others}: whoever has it can sign for the log; chmod 600",
            file.value.display()
        );
        reader.warning(file.line, name, message);
    }
    match key::read(&file.value) {
        Ok(key) => Some((file, Arc::new(key))),
        Err(why) => {
            reader.problem(file.line, name, format!("{} {why}", file.value.display()));
            None
        }
    }
}

/// `cache` is a directory here; where Sunlight's file names its SQLite cache,
/// the directory lies beside that.
fn cache(reader: &mut Reader<'_, '_>, data: Option<&Located<PathBuf>>) -> Option<Located<PathBuf>> {
    let Some(cache) = reader.path("cache") else {
        return data
            .cloned()
            .map(|data| data.map(|path| path.join(".lucarne/cache")));
    };
    if !cache.value.is_file() {
        return Some(cache);
    }
    let beside = cache.clone().map(|path| {
        let mut name = path.into_os_string();
        name.push(".lucarne");
        PathBuf::from(name)
    });
    let message = format!(
        "is a file (Sunlight's cache?), which Lucarne does not use: it keeps its own in {}",
        beside.value.display()
    );
    reader.warning(cache.line, "cache", message);
    Some(beside)
}

/// How the log sequences.
struct Rounds {
    period: Located<Duration>,
    pool_size: Located<usize>,
    checkpoint_interval: Duration,
    read_cache: u64,
}

fn rounds(reader: &mut Reader<'_, '_>) -> Rounds {
    let or = |value: Option<Located<Duration>>, default| {
        value.unwrap_or(Located {
            value: default,
            line: None,
        })
    };
    let period = or(
        reader.parse("period", values::milliseconds(1, 60_000)),
        PERIOD,
    );
    let interval = reader.parse("checkpointinterval", values::milliseconds(100, 60_000));
    let pool_size = reader
        .parse("poolsize", values::number(0, 10_000_000, "entries"))
        .map(|located| located.map(|entries| unlimited(entries as usize)));
    let mebibytes = reader.parse("readcache", values::number(0, 1 << 20, "MiB"));
    Rounds {
        period,
        pool_size: pool_size.unwrap_or(Located {
            value: POOL_SIZE,
            line: None,
        }),
        checkpoint_interval: or(interval, CHECKPOINT_INTERVAL).value,
        read_cache: mebibytes.map_or(READ_CACHE, |located| located.value << 20),
    }
}

/// As in Sunlight, 0 is no limit.
pub(super) fn unlimited(entries: usize) -> usize {
    if entries == 0 {
        u32::MAX as usize
    } else {
        entries
    }
}

fn roots(reader: &mut Reader<'_, '_>) -> RootSources {
    let pem = file(reader, "roots");
    let extra = file(reader, "extraroots");
    let programme = reader.parse("ccadbroots", |text| match text {
        "trusted" => Ok(CcadbProgramme::Trusted),
        "testing" => Ok(CcadbProgramme::Testing),
        _ => Err("is neither `trusted` nor `testing`".into()),
    });
    let url = reader.url_or_path("rootsurl");
    // As in Sunlight, a log without a roots file takes the roots that CCADB
    // says are trusted.
    let programme = match programme {
        None if reader.has("ccadbroots") => None,
        None if !reader.has("roots") || url.is_some() => Some(Located {
            value: CcadbProgramme::Trusted,
            line: url.as_ref().and_then(|url| url.line),
        }),
        programme => programme,
    };
    let ccadb = programme.map(|programme| {
        programme.map(|programme| Ccadb {
            source: url.map_or_else(|| report_of(programme).to_owned(), |url| url.value),
            programme,
        })
    });
    RootSources { pem, extra, ccadb }
}

/// CCADB's report of the roots of a programme.
fn report_of(programme: CcadbProgramme) -> &'static str {
    match programme {
        CcadbProgramme::Trusted => CCADB_TRUSTED,
        CcadbProgramme::Testing => CCADB_TESTING,
    }
}

/// A file that must exist.
fn file(reader: &mut Reader<'_, '_>, key: &str) -> Option<Located<PathBuf>> {
    let path = reader.path(key)?;
    if !path.value.is_file() {
        let message = format!("{} does not exist, or is no file", path.value.display());
        reader.problem(path.line, key, message);
        return None;
    }
    Some(path)
}

fn policy(reader: &mut Reader<'_, '_>) -> Policy {
    let start = reader.parse("notafterstart", values::time);
    let limit = reader.parse("notafterlimit", values::time);
    if let (Some(start), Some(limit)) = (&start, &limit)
        && start.value >= limit.value
    {
        let message = "is not after `notafterstart`: no certificate could be logged";
        reader.problem(limit.line, "notafterlimit", message);
    }
    let require = reader.parse("require", |text| match text {
        "server_auth" => Ok(Require::ServerAuth),
        "any" => Ok(Require::Any),
        _ => Err("is neither `server_auth` nor `any`".into()),
    });
    let mut flag = |key, default| {
        let value = reader.parse(key, values::boolean);
        value.map_or(default, |located| located.value)
    };
    let accept_sha1 = flag("accept_sha1", true);
    let reject_expired = flag("reject_expired", false);
    let reject_unexpired = flag("reject_unexpired", false);
    let max_chain = reader.parse("maxchain", values::number(2, 100, "certificates"));
    if reject_expired && reject_unexpired {
        let message = "and `reject_expired` together refuse every certificate";
        reader.problem(None, "reject_unexpired", message);
    }
    let extensions = reader.list("reject_extensions", values::oid);
    Policy {
        require: require.map_or(Require::ServerAuth, |located| located.value),
        accept_sha1,
        reject_expired,
        reject_unexpired,
        reject_extensions: extensions
            .into_iter()
            .map(|located| located.value)
            .collect(),
        not_after_start: start.map(|located| located.value),
        not_after_limit: limit.map(|located| located.value),
        max_chain: max_chain.map_or(Policy::DEFAULT_MAX_CHAIN, |located| located.value as usize),
    }
}
