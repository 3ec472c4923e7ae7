//! Load on ACME servers (RFC 8555) with renewal information (RFC 9773).
//!
//! An iteration runs a [`Flow`]: three small requests that any client may send (`probe`, and
//! `burst` without pauses), requests for the renewal information of real certificates, or a
//! complete enrolment. An enrolment consists of order, authorisations, challenges, finalisation,
//! download, renewal information, renewal with `replaces`, and revocation of the replaced
//! certificate.
//!
//! - Every request carries the tag `step`. Each step has its expected statuses: for an unknown
//!   renewal id, 400 and 404 are both right. Every body is parsed, so a server that sends HTML for
//!   everything fails every check.
//! - Requests are signed with ES256 before the measured time. All users share a pool of nonces. A
//!   refused nonce is replaced, as RFC 8555, section 6.5, requires, and counted (`acme_bad_nonce`).
//!   Only the fifth refusal in a row is a failure.
//! - A rate limit (429, or a problem of the type `rateLimited`) is a failure of the kind
//!   `rate_limited`, counted as `acme_rate_limited`. No user repeats the step before the time in
//!   Retry-After has passed; then the enrolment continues.
//! - A built-in responder serves challenges of the types http-01 and tls-alpn-01. A server whose
//!   authorization becomes valid without a request to the responder has validated nothing
//!   (`validated`).
//! - Each state of an order is compared with the request: identifiers, `replaces` and `expires`. An
//!   order is finalized only when it is ready.
//! - A certificate is checked: its names are the ordered ones, its key is the certified one, its
//!   signatures are valid up to the end of the chain, and it is valid now. The root need not be
//!   trusted, because test servers generate their roots at startup.
//!
//! An enrolment that does not finish fails the check `enrolled`. All URLs that the run uses must be
//! on the same server.

mod account;
mod certificate;
mod client;
mod directory;
mod enrol;
mod jws;
mod media_type;
mod nonces;
mod options;
mod order;
mod ordered;
mod probe;
mod problem;
mod rate_limits;
mod registration;
mod responder;
mod scenario;
mod shared_state;
mod step;
mod user;

pub use options::{AccountReuse, AcmeOptions, ChallengeType, Flow, KeyAlgorithm, Until};
pub use scenario::build;
