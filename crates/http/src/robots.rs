//! `robots.txt`: search engines may index the pages, but not the tree.

use std::fmt::Write;

use http::StatusCode;
use lucarne_log::Log;

use crate::reply::{Response, plain, value};
use crate::route::Prefix;

/// Responds to a request for `robots.txt`. Crawlers must not read millions of tiles.
pub(crate) fn response<'l>(logs: impl Iterator<Item = &'l Log>) -> Response {
    let mut text = String::from("User-agent: *\n");
    for log in logs {
        let config = log.config();
        let of = |url: &str| Prefix::parse(url).map(|prefix| prefix.path);
        if let Ok(path) = of(&config.monitoring_prefix) {
            for folder in ["tile/", "issuer/", "feed", "checkpoint"] {
                // Writing to a string never fails.
                let _ = writeln!(text, "Disallow: {path}{folder}");
            }
        }
        if let Ok(path) = of(&config.submission_prefix) {
            let _ = writeln!(text, "Disallow: {path}ct/");
        }
    }
    plain(StatusCode::OK, &value::TEXT, &value::MINUTE, text)
}
