//! ACME servers (RFC 8555), with renewal information (RFC 9773).
//!
//! An iteration runs a [`Flow`]: three small requests that any client
//! may send (`probe`, and `burst` without pauses), renewal information of real
//! certificates, or a whole enrolment: order, authorisations, challenges,
//! finalisation, download, renewal information, renewal with `replaces`, and
//! revocation of what was replaced.
//!
//! - Every request carries the tag `step`. A status is right if the step expects
//!   it: to a renewal id of no certificate, 400 and 404 both are. Every body is
//!   read for what it should be, so that a server that answers HTML to everything
//!   fails everything.
//! - Requests are signed with ES256 before their time begins. Nonces are pooled
//!   over all users; a nonce that is refused is replaced, as RFC 8555 6.5 wants,
//!   and counted (`acme_bad_nonce`). Only the fifth refusal in a row is a failure.
//! - A rate limit (429, or a problem of the type `rateLimited`) is a failure of
//!   the kind `rate_limited`, counted as `acme_rate_limited`. Nobody asks for the
//!   same step again until the time in Retry-After has passed; then the enrolment
//!   goes on.
//! - Challenges are answered by a built-in responder, http-01 and tls-alpn-01.
//! - A certificate is checked: its names are those that were ordered, its key is
//!   the one that was certified, its signatures hold up to the end of the chain,
//!   and it is valid now. Whom to trust in the end is not asked: test servers make
//!   their roots as they start.
//!
//! An enrolment that does not come to its end fails the check `enrolled`. All that
//! the directory names must be on the same server.

mod account;
mod certificate;
mod client;
mod directory;
mod enrol;
mod jws;
mod nonces;
mod options;
mod order;
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
