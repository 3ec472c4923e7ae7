//! Requests to any HTTP API, as a plan describes them.
//!
//! An iteration sends all requests of `steps` in order, or one of `requests` by weight. Paths,
//! headers and bodies are templates, which are compiled once. Each request has its expected
//! statuses: a plan that expects 404 counts 404 as a success and 200 as a failure. `checks` are
//! further conditions for a response, each with a name in reports. A response that fails a check is
//! a failed request, so a server that sends HTML for everything does not pass.
//!
//! - Requests carry the tag `op`, which is the name of the request.
//! - Redirects are not followed and cookies are not stored: a response is checked as it is.
//! - Values are captured from responses by JSON pointer or header, for the rest of the iteration
//!   (`capture`) or of the user's life (`remember`). A request with missing values is not sent, and
//!   the iteration fails.
//! - `setup`, `userSetup` and `teardown` are requests outside the load, with the tag `phase`.
//! - Bodies, headers and values can come from files (`@file`), rows of values from CSV and JSON
//!   (`data`), complete requests from vegeta's files (`targets`).
//! - JSON is scanned once for all wanted places, without building the document.

mod files;
mod json_pointers;
mod options;
mod phases;
mod request;
mod response_checks;
mod rows;
mod scenario;
mod shared_state;
mod targets;
mod template;
mod user;

pub use files::FileError;
pub(crate) use options::STRUCTURED;
pub(crate) use options::headers;
pub use options::{
    CheckOptions, Connections, Header, HeaderError, Json, JsonError, JsonType, Length, LengthError,
    Pairs, RestOptions, Step,
};
pub use rows::{DataOptions, RowOrder, RowScope};
pub use scenario::build;
