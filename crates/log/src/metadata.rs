//! The metadata that only the operator of a log can give, for `log.v3.json`.
//!
//! The fields are those that log operators publish (the proposal for operator-published log
//! metadata on the ct-policy list, schema `log-metadata-v1`).

/// The metadata that the operator gives of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The purpose of the log.
    pub intended_use: IntendedUse,
    /// Since when the log is active, in milliseconds since 1970.
    pub active_since: Option<u64>,
    /// The plans for it, beyond the end of its window.
    pub planned_changes: Vec<PlannedChange>,
    /// The rate at which one may submit.
    pub submission_rate_limit: Option<RateLimit>,
    /// The rate at which one may read.
    pub monitoring_rate_limit: Option<RateLimit>,
}

/// The purpose of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntendedUse {
    /// To be relied on: eligible for the lists of browsers.
    Production,
    /// For tests, of the operator's or of others.
    #[default]
    Test,
    /// Shut down by its operator for good; it may still be read.
    Decommissioned,
}

impl IntendedUse {
    /// Its name in `log.v3.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            IntendedUse::Production => "production",
            IntendedUse::Test => "test",
            IntendedUse::Decommissioned => "decommissioned",
        }
    }
}

/// The status of a log, as its operator intends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It takes submissions and is read.
    Active,
    /// It is read.
    ReadOnly,
    /// It does not answer any more.
    Inactive,
}

impl Status {
    /// Its name in `log.v3.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::ReadOnly => "readonly",
            Status::Inactive => "inactive",
        }
    }
}

/// A status that the log will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// The rate limit.
    pub new_status: Status,
    /// From when on, in milliseconds since 1970.
    pub effective_ms: u64,
    /// The reason, for people.
    pub comment: Option<String>,
}

/// The number of requests that an endpoint answers. It says what whoever stands in front of the log
/// enforces; the limits of this server are said by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Most requests within the interval.
    pub requests: u64,
    /// The interval in seconds.
    pub interval_seconds: u64,
    /// Of what the requests are counted together: `ip`, `subnet`, `global`, …
    pub scope: Option<String>,
}
