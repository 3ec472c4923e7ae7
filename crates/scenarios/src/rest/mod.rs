//! Any API over HTTP, as a plan describes it.
//!
//! An iteration makes all requests of `steps`, one after the other, or one of
//! `requests`, by weight. Paths, headers and bodies are templates, compiled
//! once. Each request says which statuses are right; a
//! plan that expects 404 counts 404 as a success, and 200 as a failure. What else
//! must be true of an answer is told by `checks`, each of which has a name of its
//! own in reports. An answer that is not right is a failed request: a server that
//! answers HTML to everything does not pass for one that works.
//!
//! - Requests carry the tag `op`: the request's name.
//! - Redirects are not followed, cookies not kept: an answer is looked at as it is.
//! - Values are taken from answers by JSON pointer or header, for the rest of the
//!   iteration (`capture`) or of the user's life (`remember`). A request whose
//!   values are not there is not sent; that is a failed iteration.
//! - Bodies, headers and values come from files too (`@file`), rows of values from CSV and
//!   JSON (`data`), whole requests from files of vegeta's (`targets`).
//! - JSON is looked through once for all places that matter, and not built up.

mod files;
mod json_pointers;
mod options;
mod request;
mod response_checks;
mod rows;
mod scenario;
mod shared_state;
mod targets;
mod template;
mod user;

pub(crate) use options::STRUCTURED;
pub(crate) use options::headers;
pub use options::{
    CheckOptions, Connections, Header, Json, JsonType, Length, Pairs, RestOptions, Step,
};
pub use rows::{DataOptions, RowOrder, RowScope};
pub use scenario::build;
