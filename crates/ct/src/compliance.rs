//! Certificate Transparency policies of user agents, which decide whether the SCTs of a certificate
//! are sufficient.
//!
//! The rules are data, so that they can be changed or written for another user agent. Each policy
//! names its source and the date of the text ([`CtPolicy::source`], [`CtPolicy::as_of`]).
//!
//! A policy judges verified SCTs and ignores the certificate itself. Neither Chrome nor Apple
//! applies its policy to certificates with a private root.

use std::collections::{HashMap, HashSet};
use std::fmt;

use lucarne_x509::text::counted;

use crate::loglist::{ListedLog, LogApi, LogState, LogStatus};

const DAY_MS: u64 = 86_400_000;

/// The methods to deliver an SCT (RFC 6962, section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Embedded in the certificate.
    Embedded,
    /// Part of a stapled OCSP response.
    Ocsp,
    /// Part of a TLS extension.
    Tls,
}

impl Delivery {
    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Delivery::Embedded => "embedded",
            Delivery::Ocsp => "OCSP",
            Delivery::Tls => "TLS",
        }
    }
}

/// An SCT for this certificate, with a verified signature by a listed log.
#[derive(Debug, Clone, Copy)]
pub struct ValidSct<'a> {
    /// The log that signed the SCT.
    pub log: &'a ListedLog,
    /// The log's state at the time of the check.
    pub state: Option<LogState>,
    /// Timestamp of the SCT in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Method of delivery.
    pub delivery: Delivery,
}

/// The number of SCTs that a certificate needs for its lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifetimeRule {
    /// Maximum lifetime in days for this rule; `None` applies to all longer lifetimes.
    pub up_to_days: Option<u64>,
    /// Number of distinct logs.
    pub logs: usize,
    /// Maximum number of logs of one operator that count.
    pub most_per_operator: usize,
}

/// The rules of a user agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtPolicy {
    /// Name of the user agent.
    pub name: &'static str,
    /// URL of the policy.
    pub source: &'static str,
    /// Date of the policy text that these rules implement.
    pub as_of: &'static str,
    /// States of logs whose SCTs count, at the time of the check.
    pub current: &'static [LogStatus],
    /// Embedded SCTs that were signed before their log entered one of these states also count, if
    /// at least one SCT is from a current log.
    pub once: &'static [LogStatus],
    /// Whether the earliest of all presented SCTs decides if an SCT was signed before its log
    /// entered a state of `once`; otherwise each SCT's own timestamp decides.
    pub earliest_decides: bool,
    /// Rules for embedded SCTs by lifetime, shortest first.
    pub embedded: &'static [LifetimeRule],
    /// Whether SCTs in stapled OCSP responses count.
    pub ocsp: bool,
    /// Required number of distinct current logs for SCTs in the TLS handshake or in an OCSP
    /// response.
    pub delivered_logs: usize,
    /// Whether embedded SCTs of current logs also count, if at least one SCT is in the TLS
    /// handshake or in an OCSP response.
    pub delivered_mixes: bool,
    /// Required number of distinct operators of the logs that count.
    pub operators: usize,
    /// Required number of logs that follow RFC 6962 rather than the static CT API.
    pub rfc6962_logs: usize,
    /// Whether the lifetime includes the second of notAfter (RFC 5280, section 4.1.2.5).
    pub inclusive_lifetime: bool,
    /// Earliest notBefore under these rules, in milliseconds since 1970. Older certificates were
    /// issued under other rules.
    pub issued_since_ms: i64,
}

impl CtPolicy {
    /// The policies that Lucarne checks.
    pub const ALL: [CtPolicy; 2] = [CtPolicy::chrome(), CtPolicy::apple()];

    /// Returns the policy of Chrome.
    pub const fn chrome() -> Self {
        use LogStatus::{Qualified, ReadOnly, Retired, Usable};
        const EVERY: usize = usize::MAX;
        CtPolicy {
            name: "Chrome",
            source: "https://googlechrome.github.io/CertificateTransparency/ct_policy.html",
            as_of: "2026-07-22",
            current: &[Qualified, Usable, ReadOnly],
            once: &[Retired],
            earliest_decides: true,
            embedded: const { &[rule(Some(180), 2, EVERY), rule(None, 3, EVERY)] },
            // Chrome has not counted SCTs of OCSP responses since version 148.
            ocsp: false,
            delivered_logs: 2,
            delivered_mixes: false,
            operators: 2,
            rfc6962_logs: 0,
            inclusive_lifetime: false,
            issued_since_ms: 1_649_980_800_000, // 15 April 2022
        }
    }

    /// Returns the policy of Apple.
    pub const fn apple() -> Self {
        CtPolicy {
            name: "Apple",
            source: "https://support.apple.com/103214",
            as_of: "2026-07-22",
            earliest_decides: false,
            ocsp: true,
            embedded: const { &[rule(Some(180), 2, 1), rule(None, 3, 2)] },
            delivered_mixes: true,
            operators: 1,
            rfc6962_logs: 1,
            inclusive_lifetime: true,
            issued_since_ms: 1_618_963_200_000, // 21 April 2021
            ..CtPolicy::chrome()
        }
    }
}

const fn rule(up_to_days: Option<u64>, logs: usize, most_per_operator: usize) -> LifetimeRule {
    LifetimeRule {
        up_to_days,
        logs,
        most_per_operator,
    }
}

/// The verdict of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The SCTs are sufficient.
    Compliant {
        /// Delivery of the SCTs that count.
        by: Delivery,
        /// Number of distinct logs.
        logs: usize,
        /// Number of distinct operators.
        operators: usize,
    },
    /// The SCTs are not sufficient.
    NotCompliant(Shortfall),
}

impl Verdict {
    /// Returns `true` if the SCTs are sufficient.
    pub fn is_compliant(&self) -> bool {
        matches!(self, Verdict::Compliant { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Compliant {
                by,
                logs,
                operators,
            } => {
                let (logs, operators) = (counted(*logs, "log"), counted(*operators, "operator"));
                write!(f, "SCTs ({}) of {logs} of {operators}", by.name())
            }
            Verdict::NotCompliant(shortfall) => shortfall.fmt(f),
        }
    }
}

/// The first requirement that is not met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shortfall {
    /// No SCT verifies with a log of the list.
    #[error("no valid SCT")]
    None,
    /// All SCTs are in a stapled OCSP response, which does not count.
    #[error("all SCTs are in a stapled OCSP response, which does not count")]
    OnlyOcsp,
    /// No SCT is by a log that counts now.
    #[error("no SCT of a log that is qualified, usable or read-only")]
    NoCurrentLog,
    /// There are too few logs.
    #[error("SCTs of distinct logs: found {found}, expected {needed} for {}", lived(*.days))]
    Logs {
        /// Number of logs that count, after the limit for each operator.
        found: usize,
        /// Required number of logs.
        needed: usize,
        /// Lifetime of the certificate in started days, if the rule depends on it.
        days: Option<u64>,
    },
    /// There are too few operators.
    #[error("distinct operators of the logs: found {found}, expected {needed}")]
    Operators {
        /// Number of operators of logs that count.
        found: usize,
        /// Required number of operators.
        needed: usize,
    },
    /// All logs are static CT logs.
    #[error("no SCT of a log that follows RFC 6962: all SCTs are of static CT logs")]
    NoRfc6962,
}

fn lived(days: Option<u64>) -> String {
    days.map_or_else(
        || "a certificate".to_owned(),
        |days| format!("a certificate of {days} days"),
    )
}

impl CtPolicy {
    /// Judges the valid SCTs of a certificate. The validity of the certificate is in milliseconds
    /// since 1970.
    ///
    /// SCTs from the future are invalid (RFC 6962, section 5.2) and must not be passed.
    pub fn judge(&self, not_before_ms: i64, not_after_ms: i64, scts: &[ValidSct<'_>]) -> Verdict {
        if scts.is_empty() {
            return Verdict::NotCompliant(Shortfall::None);
        }
        let earliest = scts.iter().map(|sct| sct.timestamp_ms).min().unwrap_or(0);
        let counts = |sct: &&ValidSct<'_>| self.ocsp || sct.delivery != Delivery::Ocsp;
        let scts: Vec<_> = scts.iter().filter(counts).copied().collect();
        if scts.is_empty() {
            return Verdict::NotCompliant(Shortfall::OnlyOcsp);
        }
        self.judge_counting(not_before_ms, not_after_ms, &scts, earliest)
    }

    /// Judges SCTs whose delivery counts. The `earliest` timestamp may belong to an SCT whose
    /// delivery does not count.
    fn judge_counting(
        &self,
        not_before_ms: i64,
        not_after_ms: i64,
        scts: &[ValidSct<'_>],
        earliest: u64,
    ) -> Verdict {
        let days = self.lifetime_days(not_before_ms, not_after_ms);
        let embedded = self.judge_embedded(days, scts, earliest);
        let fresh = |sct: &&ValidSct<'_>| sct.delivery != Delivery::Embedded;
        let Some(delivered) = scts.iter().find(fresh) else {
            return embedded;
        };
        if embedded.is_compliant() {
            return embedded;
        }
        let verdict = self.judge_delivered(delivered.delivery, scts);
        let alone = scts.iter().all(|sct| sct.delivery != Delivery::Embedded);
        if verdict.is_compliant() || alone {
            verdict
        } else {
            embedded
        }
    }

    /// Returns the lifetime in started days, unlimited if the times are invalid.
    fn lifetime_days(&self, not_before_ms: i64, not_after_ms: i64) -> u64 {
        let lifetime = not_after_ms.checked_sub(not_before_ms);
        let lifetime = lifetime.and_then(|ms| u64::try_from(ms).ok());
        let last = u64::from(self.inclusive_lifetime) * 1000;
        lifetime.map_or(u64::MAX, |ms| ms.saturating_add(last).div_ceil(DAY_MS))
    }

    fn is_current(&self, sct: &ValidSct<'_>) -> bool {
        sct.state
            .is_some_and(|state| self.current.contains(&state.status))
    }

    fn was_current(&self, sct: &ValidSct<'_>, earliest: u64) -> bool {
        let signed = if self.earliest_decides {
            earliest
        } else {
            sct.timestamp_ms
        };
        sct.state
            .is_some_and(|state| self.once.contains(&state.status) && signed < state.since_ms)
    }

    fn judge_embedded(&self, days: u64, scts: &[ValidSct<'_>], earliest: u64) -> Verdict {
        let counting: Vec<_> = scts
            .iter()
            .filter(|sct| sct.delivery == Delivery::Embedded)
            .filter(|sct| self.is_current(sct) || self.was_current(sct, earliest))
            .collect();
        if !counting.iter().any(|sct| self.is_current(sct)) {
            return Verdict::NotCompliant(Shortfall::NoCurrentLog);
        }
        let fits = |rule: &&LifetimeRule| rule.up_to_days.is_none_or(|most| days <= most);
        let rule = self.embedded.iter().find(fits);
        let (needed, most) = rule.map_or((usize::MAX, usize::MAX), |rule| {
            (rule.logs, rule.most_per_operator)
        });
        self.judge_set(Delivery::Embedded, Some(days), &counting, needed, most)
    }

    fn judge_delivered(&self, by: Delivery, scts: &[ValidSct<'_>]) -> Verdict {
        let counting: Vec<_> = scts
            .iter()
            .filter(|sct| self.delivered_mixes || sct.delivery != Delivery::Embedded)
            .filter(|sct| self.is_current(sct))
            .collect();
        let fresh = |sct: &&&ValidSct<'_>| sct.delivery != Delivery::Embedded;
        match counting.iter().find(fresh) {
            Some(_) => self.judge_set(by, None, &counting, self.delivered_logs, usize::MAX),
            None => Verdict::NotCompliant(Shortfall::NoCurrentLog),
        }
    }

    /// Counts the distinct logs with the operator limit, the distinct operators, and the logs of
    /// RFC 6962.
    fn judge_set(
        &self,
        by: Delivery,
        days: Option<u64>,
        scts: &[&ValidSct<'_>],
        needed: usize,
        most_per_operator: usize,
    ) -> Verdict {
        let mut logs = HashSet::new();
        let mut operators: HashMap<&str, usize> = HashMap::new();
        let mut rfc6962 = 0;
        for sct in scts {
            if logs.insert(sct.log.log_id) {
                *operators
                    .entry(sct.log.operator_at(sct.timestamp_ms))
                    .or_default() += 1;
                rfc6962 += usize::from(matches!(sct.log.api, LogApi::Rfc6962 { .. }));
            }
        }
        let found = operators.values().map(|n| n.min(&most_per_operator)).sum();
        let shortfall = if found < needed {
            Shortfall::Logs {
                found,
                needed,
                days,
            }
        } else if operators.len() < self.operators {
            Shortfall::Operators {
                found: operators.len(),
                needed: self.operators,
            }
        } else if rfc6962 < self.rfc6962_logs {
            Shortfall::NoRfc6962
        } else {
            return Verdict::Compliant {
                by,
                logs: logs.len(),
                operators: operators.len(),
            };
        };
        Verdict::NotCompliant(shortfall)
    }
}

#[cfg(test)]
#[path = "compliance_tests.rs"]
mod tests;
