//! Certificate Transparency policies of user agents: are these SCTs enough?
//!
//! The rules are data, so that they can be changed, or written for a user agent of one's own:
//!
//! Each policy names its source and the day as of which it has been read ([`CtPolicy::source`],
//! [`CtPolicy::as_of`]).
//!
//! A policy judges SCTs that have been verified. It says nothing of the certificate itself,
//! and neither Chrome nor Apple ask it of certificates whose root is not a public one.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::loglist::{ListedLog, LogApi, LogState, LogStatus};

const DAY_MS: u64 = 86_400_000;

/// The ways in which an SCT comes with the certificate (RFC 6962 section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// In the certificate.
    Embedded,
    /// In a stapled OCSP response.
    Ocsp,
    /// In a TLS extension.
    Tls,
}

impl Delivery {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Delivery::Embedded => "embedded",
            Delivery::Ocsp => "OCSP",
            Delivery::Tls => "TLS",
        }
    }
}

/// An SCT whose signature is that of a log of the list, over the certificate in question.
#[derive(Debug, Clone, Copy)]
pub struct ValidSct<'a> {
    /// The log.
    pub log: &'a ListedLog,
    /// The log's state at the time of the check.
    pub state: Option<LogState>,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
    /// The way in which it came.
    pub delivery: Delivery,
}

/// The number of SCTs that a certificate needs by its lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifetimeRule {
    /// Certificates of at most so many days; `None`: all others.
    pub up_to_days: Option<u64>,
    /// SCTs from so many distinct logs.
    pub logs: usize,
    /// Of one operator's logs only so many count.
    pub most_per_operator: usize,
}

/// The rules of a user agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtPolicy {
    /// The operator of the policy.
    pub name: &'static str,
    /// The page that states the policy.
    pub source: &'static str,
    /// The day as of which these rules are those of the page.
    pub as_of: &'static str,
    /// Logs in these states count, at the time of the check.
    pub current: &'static [LogStatus],
    /// Embedded SCTs that logs in these states have signed before they came into them count
    /// too, beside at least one of a current log.
    pub once: &'static [LogStatus],
    /// True if the earliest of all SCTs that are presented decides whether an SCT was signed before
    /// that; else each SCT's own timestamp does.
    pub earliest_decides: bool,
    /// For embedded SCTs; by lifetime, shortest first.
    pub embedded: &'static [LifetimeRule],
    /// True if SCTs in stapled OCSP responses count.
    pub ocsp: bool,
    /// For SCTs by TLS or OCSP: from so many distinct current logs.
    pub delivered_logs: usize,
    /// True if embedded SCTs of current logs count beside at least one by TLS or OCSP.
    pub delivered_mixes: bool,
    /// Distinct operators among those that count.
    pub operators: usize,
    /// The number that must be of logs that follow RFC 6962 rather than the static CT API.
    pub rfc6962_logs: usize,
    /// True if notAfter itself belongs to the lifetime (RFC 5280 section 4.1.2.5): a second more.
    pub inclusive_lifetime: bool,
    /// The first notBefore that these rules are for, in milliseconds since 1970: before that, others were.
    pub issued_since_ms: i64,
}

impl CtPolicy {
    /// The policies that this product asks.
    pub const ALL: [CtPolicy; 2] = [CtPolicy::chrome(), CtPolicy::apple()];

    /// Chrome's.
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
            // Not since version 148.
            ocsp: false,
            delivered_logs: 2,
            delivered_mixes: false,
            operators: 2,
            rfc6962_logs: 0,
            inclusive_lifetime: false,
            issued_since_ms: 1_649_980_800_000, // 15 April 2022
        }
    }

    /// Apple's.
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
    /// The SCTs are enough.
    Compliant {
        /// The way in which those that count came.
        by: Delivery,
        /// From so many logs.
        logs: usize,
        /// Of so many operators.
        operators: usize,
    },
    /// They are not.
    NotCompliant(Shortfall),
}

impl Verdict {
    /// Returns whether the SCTs are enough.
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
                let (by, s) = (by.name(), if *operators == 1 { "" } else { "s" });
                write!(f, "SCTs ({by}) of {logs} logs of {operators} operator{s}")
            }
            Verdict::NotCompliant(shortfall) => shortfall.fmt(f),
        }
    }
}

/// The shortfall: the first of the demands that is not met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shortfall {
    /// No SCT, or none that verifies with a log of the list.
    #[error("no valid SCT")]
    None,
    /// There are some, but all in a stapled OCSP response, which does not count.
    #[error("SCTs in a stapled OCSP response only, which do not count")]
    OnlyOcsp,
    /// There are some, but none by a log that counts now.
    #[error("no SCT of a log that is qualified, usable or read-only")]
    NoCurrentLog,
    /// Too few logs.
    #[error("SCTs of {found} of the {needed} logs that {} needs", lived(*.days))]
    Logs {
        /// Logs that count, after the operators' limit.
        found: usize,
        /// Logs needed.
        needed: usize,
        /// The certificate's lifetime, days begun, where the rule depends on it.
        days: Option<u64>,
    },
    /// Too few operators.
    #[error("the logs are of {found} of the {needed} operators needed")]
    Operators {
        /// Operators of logs that count.
        found: usize,
        /// Operators needed.
        needed: usize,
    },
    /// Only static CT logs.
    #[error("no SCT of a log that follows RFC 6962: all are of static CT logs")]
    NoRfc6962,
}

fn lived(days: Option<u64>) -> String {
    days.map_or_else(
        || "a certificate".to_owned(),
        |days| format!("a certificate of {days} days"),
    )
}

impl CtPolicy {
    /// Judges the valid SCTs of a certificate, its validity in milliseconds since 1970.
    ///
    /// SCTs from the future (RFC 6962 section 5.2) are not valid and must not be among them.
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

    /// The same of SCTs that came in a way that counts, of which the `earliest` may be another.
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
        match verdict.is_compliant() || alone {
            true => verdict,
            false => embedded,
        }
    }

    /// Days begun; a certificate whose times make no sense lives for ever.
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
        let signed = match self.earliest_decides {
            true => earliest,
            false => sct.timestamp_ms,
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

    /// Distinct logs, limited by operator, distinct operators, a log of RFC 6962.
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
