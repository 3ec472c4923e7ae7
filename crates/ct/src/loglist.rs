//! Log lists, version 3 of the JSON that Chrome and Apple publish: the logs with their operators
//! and states.
//!
//! - Chrome: <https://www.gstatic.com/ct/log_list/v3/log_list.json> and `all_logs_list.json`
//!   (schema: `log_list_schema.json` in the same directory).
//! - Apple: <https://valid.apple.com/ct/log_list/current_log_list.json>.
//!
//! Relevant fields (log ID, key, state, times) are parsed strictly, other fields tolerantly:
//! unknown fields are ignored. A log that cannot be used is skipped with a reason; the other logs
//! stay.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use lucarne_x509::time;
use serde_json::Value;

use crate::public_key::{KeyError, LogId, PublicKey};

/// The states of logs: <https://googlechrome.github.io/CertificateTransparency/log_states.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogStatus {
    /// The log has applied for inclusion.
    Pending,
    /// The log is included, but not yet known to all clients.
    Qualified,
    /// The log is included, and certificate authorities can rely on it.
    Usable,
    /// The log no longer accepts submissions; its SCTs count.
    ReadOnly,
    /// SCTs from before the retirement count.
    Retired,
    /// The log was never accepted, or was removed.
    Rejected,
}

impl LogStatus {
    /// Returns the name in log lists.
    pub fn name(self) -> &'static str {
        match self {
            LogStatus::Pending => "pending",
            LogStatus::Qualified => "qualified",
            LogStatus::Usable => "usable",
            LogStatus::ReadOnly => "readonly",
            LogStatus::Retired => "retired",
            LogStatus::Rejected => "rejected",
        }
    }

    fn of(name: &str) -> Option<Self> {
        use LogStatus::*;
        let all = [Pending, Qualified, Usable, ReadOnly, Retired, Rejected];
        all.into_iter().find(|status| status.name() == name)
    }
}

impl fmt::Display for LogStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of a log with its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogState {
    /// State of the log.
    pub status: LogStatus,
    /// Start of the state in milliseconds since 1970.
    pub since_ms: u64,
}

/// The API of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogApi {
    /// RFC 6962, under a single URL.
    Rfc6962 {
        /// URL of the log.
        url: String,
    },
    /// The static CT API.
    Static {
        /// Submission prefix.
        submission_url: String,
        /// Monitoring prefix.
        monitoring_url: String,
    },
}

/// A log of a list.
#[derive(Debug)]
pub struct ListedLog {
    /// Readable name of the log.
    pub description: String,
    /// Current operator.
    pub operator: String,
    /// Former operators, earliest first, each with the end of its operation in milliseconds since
    /// 1970.
    pub previous_operators: Vec<(String, u64)>,
    /// SHA-256 of the key.
    pub log_id: LogId,
    /// Public key.
    pub key: PublicKey,
    /// Maximum merge delay in seconds; 0 if the list has no merge delay.
    pub mmd: u64,
    /// API and URLs.
    pub api: LogApi,
    /// State; `None` if the list has no state, as for test logs.
    pub state: Option<LogState>,
    /// Accepted range of notAfter in milliseconds since 1970.
    pub temporal_interval: Option<Range<u64>>,
}

impl ListedLog {
    /// Returns the operator at the time of an SCT's timestamp.
    pub fn operator_at(&self, timestamp_ms: u64) -> &str {
        let before = self.previous_operators.iter();
        let mut before = before.filter(|(_, until)| timestamp_ms < *until);
        before.next().map_or(&self.operator, |(name, _)| name)
    }

    /// Returns the state at a time in milliseconds since 1970. Returns `None` before the start of
    /// the last state, because a list has no earlier states.
    pub fn state_at(&self, at_ms: u64) -> Option<LogState> {
        self.state.filter(|state| state.since_ms <= at_ms)
    }

    /// Returns the submission URL, without `ct/v1/add-chain`.
    pub fn submission_url(&self) -> &str {
        match &self.api {
            LogApi::Rfc6962 { url } => url,
            LogApi::Static { submission_url, .. } => submission_url,
        }
    }
}

/// A log that was skipped because it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedLog {
    /// Description of the log, or its index in the list.
    pub log: String,
    /// The reason.
    pub why: ListedLogError,
}

impl fmt::Display for SkippedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log `{}` is skipped: {}", self.log, self.why)
    }
}

/// The reasons why a log of a list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListedLogError {
    /// The operator has no name.
    #[error("the operator has no `name`")]
    NoOperator,
    /// Another log of the list has the same key.
    #[error("`{0}` has the same key")]
    SameKey(String),
    /// The private key of the log is public, so that anyone can sign.
    #[error("the private key of the log is public, so its SCTs prove nothing")]
    PublicPrivateKey,
    /// The field with this name is missing or is not a string.
    #[error("the field `{0}` is missing or is not a string")]
    NoText(&'static str),
    /// The field with this name is not base64.
    #[error("`{0}` is not base64")]
    NotBase64(&'static str),
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The ID belongs to another key.
    #[error("`log_id` is not the SHA-256 of `key`")]
    ForeignId,
    /// The state is not an object.
    #[error("`state` is not an object")]
    State,
    /// The state is unknown.
    #[error("`{0}` is not a known state")]
    UnknownState(String),
    /// The object has more than one state.
    #[error("`state` has more than one state")]
    States,
    /// The temporal interval is empty.
    #[error("`temporal_interval` ends before it starts")]
    Backwards,
    /// A previous operator has no name.
    #[error("a previous operator has no `name`")]
    NoPreviousOperator,
    /// The time with this name is missing or is not a string.
    #[error("the time `{0}` is missing or is not a string")]
    NoTime(&'static str),
    /// The text is not a time.
    #[error("`{key}`: `{value}` is not a time in UTC")]
    Time {
        /// The name of the text.
        key: &'static str,
        /// The text.
        value: String,
    },
}

/// The reasons why bytes are not a log list.
#[derive(Debug, thiserror::Error)]
pub enum LogListError {
    /// The bytes are not JSON, or not the JSON of a log list.
    #[error("not a log list (version 3 JSON): {0}")]
    Json(#[from] serde_json::Error),
    /// `operators` is missing.
    #[error("not a log list (version 3 JSON): expected a list `operators`")]
    NoOperators,
    /// No log of the list can be used.
    #[error("the log list has no usable log{}", first(.0))]
    Empty(Vec<SkippedLog>),
}

fn first(skipped: &[SkippedLog]) -> String {
    skipped
        .first()
        .map_or_else(String::new, |log| format!("; {log}"))
}

/// Logs whose private keys are public: Chrome's lists contain them for applications that use the
/// list against its terms, so that anyone can create SCTs for such applications. The SCTs of these
/// logs prove nothing. <https://groups.google.com/a/chromium.org/g/ct-policy/c/qY3aOKr5-sU>
const MIMICS: [&str; 2] = [
    "LtakTeuPDIZGZ3acTt0EH4QjZ1X6OqymNNCTXfzVmnA=",
    "0vxlL6X5tzi4N1X6XrFfC0UlP06Po7m2T9TeVmLRhwg=",
];

/// A log list.
#[derive(Debug, Default)]
pub struct LogList {
    version: Option<String>,
    timestamp_ms: Option<u64>,
    logs: Vec<Arc<ListedLog>>,
    by_id: HashMap<LogId, usize>,
    skipped: Vec<SkippedLog>,
}

impl LogList {
    /// Parses a log list in JSON.
    ///
    /// # Errors
    /// [`LogListError`]; a single invalid log is [`skipped`](Self::skipped) instead.
    pub fn parse(json: &[u8]) -> Result<Self, LogListError> {
        let document: Value = serde_json::from_slice(json)?;
        let operators = document.get("operators").and_then(Value::as_array);
        let mut list = LogList {
            version: match document.get("version") {
                Some(Value::String(version)) => Some(version.clone()),
                Some(Value::Number(version)) => Some(version.to_string()),
                _ => None,
            },
            timestamp_ms: text(&document, "log_list_timestamp").and_then(time::rfc3339),
            ..LogList::default()
        };
        for operator in operators.ok_or(LogListError::NoOperators)? {
            list.add_operator(operator);
        }
        if list.logs.is_empty() {
            Err(LogListError::Empty(list.skipped))
        } else {
            Ok(list)
        }
    }

    fn add_operator(&mut self, operator: &Value) {
        let name = text(operator, "name");
        for (member, is_static) in [("logs", false), ("tiled_logs", true)] {
            let logs = operator.get(member).and_then(Value::as_array);
            for log in logs.into_iter().flatten() {
                let place = self.logs.len() + self.skipped.len() + 1;
                let read = name
                    .ok_or(ListedLogError::NoOperator)
                    .and_then(|name| read_log(log, name, is_static))
                    .and_then(|log| self.add(log));
                if let Err(why) = read {
                    let log = text(log, "description")
                        .map_or_else(|| format!("number {place}"), str::to_owned);
                    self.skipped.push(SkippedLog { log, why });
                }
            }
        }
    }

    fn add(&mut self, log: ListedLog) -> Result<(), ListedLogError> {
        if let Some(place) = self.by_id.get(&log.log_id) {
            let other = &self.logs[*place].description;
            return Err(ListedLogError::SameKey(other.clone()));
        }
        if MIMICS.contains(&log.log_id.to_string().as_str()) {
            return Err(ListedLogError::PublicPrivateKey);
        }
        self.by_id.insert(log.log_id, self.logs.len());
        self.logs.push(Arc::new(log));
        Ok(())
    }

    /// Returns the log with this ID.
    pub fn get(&self, log_id: &LogId) -> Option<&Arc<ListedLog>> {
        self.by_id.get(log_id).map(|place| &self.logs[*place])
    }

    /// Returns the logs in the order of the list.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<ListedLog>> {
        self.logs.iter()
    }

    /// Returns the number of usable logs.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// Returns `true` for an empty list, which only `default` creates.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// Returns the skipped logs with the reasons.
    pub fn skipped(&self) -> &[SkippedLog] {
        &self.skipped
    }

    /// Returns the version field of the list.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns the timestamp of the list in milliseconds since 1970, if any.
    pub fn timestamp_ms(&self) -> Option<u64> {
        self.timestamp_ms
    }
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn read_log(log: &Value, operator: &str, is_static: bool) -> Result<ListedLog, ListedLogError> {
    let need = |key| text(log, key).ok_or(ListedLogError::NoText(key));
    let base64 = |key| {
        let decoded = base64_simd::STANDARD.decode_to_vec(need(key)?);
        decoded.map_err(|_| ListedLogError::NotBase64(key))
    };
    let (id, spki) = (base64("log_id")?, base64("key")?);
    let key = PublicKey::from_spki_of_any_log(&spki)?;
    if key.log_id().0[..] != id {
        return Err(ListedLogError::ForeignId);
    }
    let api = if is_static {
        LogApi::Static {
            submission_url: need("submission_url")?.to_owned(),
            monitoring_url: need("monitoring_url")?.to_owned(),
        }
    } else {
        LogApi::Rfc6962 {
            url: need("url")?.to_owned(),
        }
    };
    let log_id = key.log_id();
    Ok(ListedLog {
        description: text(log, "description").map_or_else(|| log_id.to_string(), str::to_owned),
        operator: operator.to_owned(),
        previous_operators: previous_operators(log)?,
        log_id,
        key,
        mmd: log.get("mmd").and_then(Value::as_u64).unwrap_or(0),
        api,
        state: read_state(log)?,
        temporal_interval: read_interval(log)?,
    })
}

/// Parses `"state": {"usable": {"timestamp": "…"}}` with exactly one state.
fn read_state(log: &Value) -> Result<Option<LogState>, ListedLogError> {
    let Some(state) = log.get("state") else {
        return Ok(None);
    };
    let states = state.as_object().ok_or(ListedLogError::State)?;
    let mut states = states.iter();
    match (states.next(), states.next()) {
        (None, _) => Ok(None),
        (Some((name, state)), None) => Ok(Some(LogState {
            status: LogStatus::of(name)
                .ok_or_else(|| ListedLogError::UnknownState(name.clone()))?,
            since_ms: read_time(state, "timestamp")?,
        })),
        _ => Err(ListedLogError::States),
    }
}

fn read_interval(log: &Value) -> Result<Option<Range<u64>>, ListedLogError> {
    let Some(interval) = log.get("temporal_interval") else {
        return Ok(None);
    };
    let start = read_time(interval, "start_inclusive")?;
    let end = read_time(interval, "end_exclusive")?;
    if start < end {
        Ok(Some(start..end))
    } else {
        Err(ListedLogError::Backwards)
    }
}

fn previous_operators(log: &Value) -> Result<Vec<(String, u64)>, ListedLogError> {
    let list = log.get("previous_operators").and_then(Value::as_array);
    let mut previous = list
        .into_iter()
        .flatten()
        .map(|operator| {
            let name = text(operator, "name").ok_or(ListedLogError::NoPreviousOperator)?;
            Ok((name.to_owned(), read_time(operator, "end_time")?))
        })
        .collect::<Result<Vec<_>, ListedLogError>>()?;
    previous.sort_by_key(|(_, until)| *until);
    Ok(previous)
}

fn read_time(object: &Value, key: &'static str) -> Result<u64, ListedLogError> {
    let value = text(object, key).ok_or(ListedLogError::NoTime(key))?;
    time::rfc3339(value).ok_or_else(|| ListedLogError::Time {
        key,
        value: value.to_owned(),
    })
}

#[cfg(test)]
#[path = "loglist_tests.rs"]
mod tests;
