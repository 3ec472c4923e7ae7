//! The errors for submitters, clients that read, and operators.
//!
//! `fatal` has the reasons why a log stops. `inconsistency` has those reasons that are
//! contradictions between lock, journal, storage, signer and index. Each other file has the errors
//! of one component.

mod away;
mod dedup_error;
mod fatal;
pub(crate) mod inconsistency;
mod known_error;
mod read_error;
mod record_error;
mod sign_error;
mod submit_error;
mod verify_error;

use lucarne_x509::text::counted;

pub use self::away::{Away, FollowedTileError};
pub use self::dedup_error::DedupError;
pub use self::fatal::Fatal;
pub use self::known_error::{HistoryHere, KnownError};
pub use self::read_error::{ReadError, ReadFailure};
pub use self::record_error::RecordError;
pub use self::sign_error::SignError;
pub use self::submit_error::{SubmitError, Unavailable};
pub use self::verify_error::{EntryError, VerifyError};

/// Formats a number of entries for a message.
fn entries(number: u64) -> String {
    counted(number, "entry")
}
