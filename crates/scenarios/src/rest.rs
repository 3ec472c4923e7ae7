//! Requests to any HTTP API, as a plan describes them.
//!
//! An iteration sends all requests of `steps` in order, or one of `requests` by weight. Paths,
//! headers and bodies are templates, which are compiled once. Each request has its expected
//! statuses: a plan that expects 404 counts 404 as a success and 200 as a failure. `checks` are
//! further conditions for a response, each with a name in reports. A response that fails a check is
//! a failed request, so a server that sends HTML for everything does not pass.
//!
//! - Requests carry the tag `op`, which is the name of the request.
//! - Redirects are followed and cookies stored only by choice. Otherwise, a response is checked as
//!   it is.
//! - Values are captured from responses by JSON pointer or header, for the rest of the iteration
//!   (`capture`) or of the user's life (`remember`). A request with missing values is not sent, and
//!   the iteration fails.
//! - `setup`, `userSetup` and `teardown` are requests outside the load, with the tag `phase`.
//! - Bodies, headers and values can come from files (`@file`), rows of values from CSV and JSON
//!   (`data`), complete requests from vegeta's files (`targets`).
//! - JSON is scanned once for all wanted places, without building the document.

mod condition;
mod cookies;
mod files;
mod json_pointers;
mod options;
mod own_metrics;
mod phases;
mod redirects;
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
    CheckOptions, Connections, Cookies, Header, HeaderError, Json, JsonError, JsonType, Length,
    LengthError, Pairs, Pick, Place, RestOptions, Step, SystemTag,
};
pub use rows::{DataOptions, RowOrder, RowScope};
pub use scenario::build;
