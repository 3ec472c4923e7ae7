use lucarne_load::{Recorder, Tags};

/// Purposes of requests, in the order of an enrolment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Directory,
    NewNonce,
    NewAccount,
    NewOrder,
    Authorization,
    Challenge,
    /// Poll of an authorisation.
    Validation,
    /// Poll of an order before the finalization.
    Readiness,
    Finalize,
    /// Poll of an order after the finalization.
    Issuance,
    Certificate,
    RenewalInfo,
    /// A new order that replaces a certificate.
    ReplaceOrder,
    Revocation,
}

impl Step {
    pub(super) const ALL: [Self; 14] = [
        Step::Directory,
        Step::NewNonce,
        Step::NewAccount,
        Step::NewOrder,
        Step::Authorization,
        Step::Challenge,
        Step::Validation,
        Step::Readiness,
        Step::Finalize,
        Step::Issuance,
        Step::Certificate,
        Step::RenewalInfo,
        Step::ReplaceOrder,
        Step::Revocation,
    ];

    /// Returns the value of the tag `step`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Step::Directory => "directory",
            Step::NewNonce => "new-nonce",
            Step::NewAccount => "new-account",
            Step::NewOrder => "new-order",
            Step::Authorization => "authorization",
            Step::Challenge => "challenge",
            Step::Validation => "validation",
            Step::Readiness => "readiness",
            Step::Finalize => "finalize",
            Step::Issuance => "issuance",
            Step::Certificate => "certificate",
            Step::RenewalInfo => "renewal-info",
            Step::ReplaceOrder => "replace-order",
            Step::Revocation => "revocation",
        }
    }
}

/// Tags of each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepTags([Tags; Step::ALL.len()]);

impl StepTags {
    pub(super) fn new(recorder: &Recorder) -> Self {
        Self(Step::ALL.map(|step| recorder.tags(&[("step", step.name())])))
    }

    pub(super) fn of(&self, step: Step) -> Tags {
        self.0[step as usize]
    }
}
