//! The key `read_limits`.

use std::path::Path;

use lucarne_http::ReadLimits;
use lucarne_settings::{Reader, Report, Section, Value};

use super::keys;
use super::keys::read_limits::Rates;

const KEY: &str = "read_limits";

/// Reads `read_limits`: `off`, or the differences from the defaults.
pub(super) fn limits(
    top: &Section<'_>,
    directory: &Path,
    report: &mut Report,
) -> Option<ReadLimits> {
    let mut rates = Rates::default();
    if let Some(node) = top.get(KEY) {
        if matches!(&node.value, Value::Scalar(text) if text == "off") {
            return None;
        }
        let section = keys::open(node, KEY, &keys::read_limits::TABLE, report)?;
        let mut reader = Reader::new(section, KEY, directory, report);
        keys::read_limits::read(&mut reader, &mut rates);
    }
    Some(rates.into())
}
