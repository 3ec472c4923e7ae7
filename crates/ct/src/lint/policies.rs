//! The policies of user agents at the date of a lint.

use super::{Lint, LintCode, LintFinding, LintedSct};
use crate::certificate::Certificate;
use crate::compliance::{CtPolicy, ValidSct, Verdict};
use crate::loglist::{LogState, LogStatus};
use crate::sct_finding::SctFinding;

/// The result of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFinding {
    /// The policy's name.
    pub policy: &'static str,
    /// The verdict based on the verified SCTs.
    pub verdict: Verdict,
    /// The reason why the verdict is uncertain; `None` if it is certain.
    pub uncertain: Option<&'static str>,
    codes: (LintCode, LintCode),
}

impl PolicyFinding {
    /// Returns the result as a finding of the lint; `None` if the policy is met.
    pub(super) fn finding(&self) -> Option<LintFinding> {
        let (wrong, unverified) = self.codes;
        match (&self.verdict, self.uncertain) {
            (Verdict::Compliant { .. }, None) => None,
            (verdict, None) => {
                let detail = format!("not sufficient for {}: {verdict}", self.policy);
                Some(LintFinding::new(wrong, detail))
            }
            (_, Some(why)) => {
                let detail = format!("the policy of {} cannot be evaluated: {why}", self.policy);
                Some(LintFinding::new(unverified, detail))
            }
        }
    }
}

const NO_LIST: &str = "there is no log list";
const NO_SCT: &str = "no SCT is embedded, and SCTs of TLS or OCSP are not available";
const UNKNOWN_LOG: &str =
    "the SCTs of listed logs are not enough, and one SCT is of an unlisted log";
const UNKNOWN_ISSUER: &str = "the SCTs cannot be verified without the issuer";
const UNKNOWN_STATE: &str = "the list does not have the required state of a log at that date";
const OLD_RULES: &str = "the SCTs are not enough by the current rules, and the certificate was issued \
                         under older rules";

/// Judges the embedded SCTs of a certificate by each policy.
pub(super) fn judge(
    lint: &Lint<'_>,
    leaf: &Certificate<'_>,
    scts: &[LintedSct],
) -> Vec<PolicyFinding> {
    let codes = [
        (LintCode::ChromePolicy, LintCode::ChromeUnverified),
        (LintCode::ApplePolicy, LintCode::AppleUnverified),
    ];
    let policies = CtPolicy::ALL.iter().zip(codes);
    let judged = policies.map(|(policy, codes)| {
        let (verdict, uncertain) = judge_one(lint, policy, leaf, scts);
        PolicyFinding {
            policy: policy.name,
            verdict,
            uncertain,
            codes,
        }
    });
    judged.collect()
}

fn judge_one(
    lint: &Lint<'_>,
    policy: &CtPolicy,
    leaf: &Certificate<'_>,
    scts: &[LintedSct],
) -> (Verdict, Option<&'static str>) {
    let not_before = leaf.not_before().unwrap_or(0);
    let not_after = leaf.not_after().unwrap_or(i64::MAX);
    let judge = |scts: &[ValidSct<'_>]| policy.judge(not_before, not_after, scts);
    let certain: Vec<_> = scts.iter().filter_map(verified).collect();
    let verdict = judge(&certain);
    if verdict.is_compliant() {
        return (verdict, None);
    }
    let has = |finding: SctFinding| scts.iter().any(|sct| sct.seen.finding == finding);
    let best: Vec<_> = scts.iter().filter_map(at_best).collect();
    let uncertain = if lint.list.is_none() {
        Some(NO_LIST)
    } else if scts.is_empty() {
        Some(NO_SCT)
    } else if has(SctFinding::UnknownLog) {
        Some(UNKNOWN_LOG)
    } else if judge(&best).is_compliant() {
        Some(
            if has(SctFinding::NoIssuer) || has(SctFinding::OtherIssuer) {
                UNKNOWN_ISSUER
            } else {
                UNKNOWN_STATE
            },
        )
    } else if not_before < policy.issued_since_ms {
        Some(OLD_RULES)
    } else {
        None
    };
    (verdict, uncertain)
}

/// Returns a valid SCT with the state of its log at the date.
fn verified(sct: &LintedSct) -> Option<ValidSct<'_>> {
    let valid = sct.seen.valid()?;
    Some(ValidSct {
        state: sct.state,
        ..valid
    })
}

/// Returns an SCT under the best assumption: verified, and with a usable log if the list does not
/// have the state.
fn at_best(sct: &LintedSct) -> Option<ValidSct<'_>> {
    if sct.seen.finding.is_false() {
        return None;
    }
    let log = sct.seen.log.as_deref()?;
    let usable = LogState {
        status: LogStatus::Usable,
        since_ms: 0,
    };
    Some(ValidSct {
        log,
        // A log without any state is a test log, which no policy counts.
        state: sct.state.or(log.state.map(|_| usable)),
        timestamp_ms: sct.seen.sct.as_ref()?.timestamp,
        delivery: sct.seen.delivery,
    })
}
