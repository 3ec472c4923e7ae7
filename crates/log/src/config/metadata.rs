//! The metadata of a log from its operator, for `log.v3.json`.
//!
//! The fields follow the proposal for operator-published log metadata on the ct-policy list (schema
//! `log-metadata-v1`).

/// The operator's metadata of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The purpose of the log.
    pub intended_use: IntendedUse,
    /// Start of the log's operation in Unix milliseconds.
    pub active_since: Option<u64>,
    /// Planned changes of the status, apart from the end of the log's window.
    pub planned_changes: Vec<PlannedChange>,
    /// The rate limit for submissions.
    pub submission_rate_limit: Option<RateLimit>,
    /// The rate limit for reads.
    pub monitoring_rate_limit: Option<RateLimit>,
    /// The operator, with contact addresses.
    pub operator: Option<Operator>,
}

/// The operator of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The name of the organization or person.
    pub name: String,
    /// The contact addresses.
    pub emails: Vec<String>,
    /// URLs of the metadata of the operator's logs in other processes.
    pub logs_elsewhere: Vec<String>,
}

/// The purpose of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntendedUse {
    /// Production: eligible for the lists of browsers.
    Production,
    /// Test, by the operator or other parties.
    #[default]
    Test,
    /// Permanently shut down by its operator; reads may still work.
    Decommissioned,
}

impl IntendedUse {
    /// Returns the value in `log.v3.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            IntendedUse::Production => "production",
            IntendedUse::Test => "test",
            IntendedUse::Decommissioned => "decommissioned",
        }
    }
}

/// The operator's intended status of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The log accepts submissions and reads.
    Active,
    /// The log accepts only reads.
    ReadOnly,
    /// The log does not respond.
    Inactive,
}

impl Status {
    /// Returns the value in `log.v3.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::ReadOnly => "readonly",
            Status::Inactive => "inactive",
        }
    }
}

/// A future status of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// The new status.
    pub new_status: Status,
    /// Start of the new status in Unix milliseconds.
    pub effective_ms: u64,
    /// The reason as free text.
    pub comment: Option<String>,
}

/// The maximum request rate of an endpoint, enforced by a proxy in front of the log. The server
/// adds its own limits itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Maximum number of requests within the interval.
    pub requests: u64,
    /// The interval in seconds.
    pub interval_seconds: u64,
    /// The group of clients whose requests are counted together: `ip`, `subnet`, `global`, …
    pub scope: Option<String>,
}
