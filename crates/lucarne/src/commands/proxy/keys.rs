//! All keys of the configuration file of a proxy, each defined once.

pub(super) mod entries;
pub(super) mod har;
pub(super) mod limits;
pub(super) mod observe;
pub(super) mod top;
pub(super) mod upstream;

use serde_json::Value;

use crate::config::keys::Documented;
use crate::config::schema::of_file;

/// Returns the JSON Schema of the file.
pub(crate) fn schema() -> Value {
    of_file("Configuration of lucarne proxy", &top::TABLE)
}

/// Returns the generated tables of the documentation.
pub(crate) fn documented() -> Vec<Documented> {
    let tables = [
        ("proxy", &top::TABLE, Some("flag")),
        ("upstream", &upstream::TABLE, Some("flag")),
        ("har", &har::TABLE, Some("flag")),
        ("observe", &observe::TABLE, Some("flag")),
        ("limits", &limits::TABLE, None),
    ];
    let documented = tables.map(|(name, table, beside)| Documented {
        page: "reference/proxy.md",
        name,
        markdown: table.to_markdown(beside),
    });
    Vec::from(documented)
}
